#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/forward.hpp"
#include "bench/networks.hpp"
#include "bench/timing.hpp"
#include "driftbound/bounds/target.hpp"

/// Plain float32 evaluation of points by Eigen, and the scalar networks that are timed against it.
namespace driftbound::bench {

/// Plain float32 evaluation of points, a block at a time.
class Plain {
public:
  virtual ~Plain() = default;
  /// `values`: where values go, one a point; null: nowhere.
  virtual void run(const std::vector<double>& points, float* values = nullptr) = 0;
  virtual std::string name() const = 0;
};

template <int order>
class PlainInBlocks final : public Plain {
public:
  PlainInBlocks(const Graph& graph, std::size_t dimension, std::size_t block)
      : dimension_(dimension), block_(block), forward_(graph, one_point(graph, dimension)) {}

  void run(const std::vector<double>& points, float* values) override {
    const std::size_t rows = points.size() / dimension_;
    for (std::size_t first = 0; first < rows; first += block_) {
      const std::size_t count = std::min(block_, rows - first);
      forward_.set_input(points.data() + first * dimension_, static_cast<Eigen::Index>(count),
                         static_cast<Eigen::Index>(dimension_));
      forward_();
      if (values != nullptr) std::copy_n(forward_.output().data(), count, values + first);
    }
  }
  std::string name() const override {
    return fmt::format("eigen-float32, {}s of {}", order == Eigen::RowMajor ? "row" : "column", block_);
  }

private:
  static Inputs one_point(const Graph& graph, std::size_t dimension) {
    return {{{graph.value(graph.inputs[0]).name,
              StoredTensor::from(Tensor<double>({1, static_cast<std::int64_t>(dimension)}))}}};
  }

  std::size_t dimension_, block_;
  Forward<float, order> forward_;
};

inline double fastest_of(int runs, const std::function<void()>& work) {
  double least = cpu_seconds_of(work);
  for (int i = 1; i < runs; ++i) least = std::min(least, cpu_seconds_of(work));
  return least;
}

/// Of blocks of nine sizes in two orders the one that is fastest at these points.
inline std::unique_ptr<Plain> fastest_plain(const Graph& graph, const std::vector<double>& points,
                                            std::size_t dimension, int runs) {
  std::unique_ptr<Plain> best;
  double least = 0.0;
  const auto consider = [&](std::unique_ptr<Plain> plain) {
    plain->run(points);
    const double seconds = fastest_of(runs, [&] { plain->run(points); });
    if (best != nullptr && seconds >= least) return;
    least = seconds;
    best = std::move(plain);
  };
  for (const std::size_t block : {32U, 64U, 128U, 256U, 512U, 1024U, 2048U, 4096U, 65536U}) {
    consider(std::make_unique<PlainInBlocks<Eigen::RowMajor>>(graph, dimension, block));
    consider(std::make_unique<PlainInBlocks<Eigen::ColMajor>>(graph, dimension, block));
  }
  return best;
}

/// A network with the scalar whose sign is asked for.
struct ScalarNetwork {
  /// A bundled network by name, another one by file.
  explicit ScalarNetwork(const std::string& name) {
    const bool is_file = name.find('/') != std::string::npos || name.ends_with(".npz");
    label = is_file ? std::filesystem::path(name).stem().string() : name;
    graph = is_file ? load_model(name) : bundled(name);
    if (name.starts_with("oscillator") || name.starts_with("mlp")) target = {{0, 1}, OutputElement{0, 0}};
  }

  std::string label;
  Graph graph;
  Target target;
};

}  // namespace driftbound::bench
