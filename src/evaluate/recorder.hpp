#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"
#include "evaluate/batches.hpp"
#include "model/convert.hpp"

namespace driftbound {

/// The outputs of nodes at the samples to record, batch after batch.
template <class Real>
class Recorder {
public:
  Recorder(const Graph& graph, const Batches& batches)
      : graph_(graph), batches_(batches), outputs_(graph.nodes.size()) {}

  void start_batch(std::int64_t first, std::int64_t count) { ranges_ = batches_.recorded(first, count); }

  /// The output of a node that is the same for every sample; copy(first, count, to) fetches elements of it.
  template <class Copy>
  void record_once(std::size_t node, const Shape& shape, Copy copy) {
    outputs_[node] = Tensor<Real>(shape);
    copy(0, element_count(shape), outputs_[node].values.data());
  }

  /// The output of a node in the batch at hand.
  template <class Copy>
  void append(std::size_t node, const Shape& shape, Copy copy) {
    Tensor<Real>& all = outputs_[node];
    if (all.shape.empty()) start(all, shape);
    const std::int64_t row = element_count(Shape(all.shape.begin() + 1, all.shape.end()));
    for (const RowRange& range : ranges_) {
      const std::size_t before = all.values.size();
      all.values.resize(before + static_cast<std::size_t>(range.count * row));
      copy(range.first * row, range.count * row, all.values.data() + before);
    }
  }

  bool identical(const Recorder& other, std::size_t node) const {
    const std::vector<Real>&a = outputs_[node].values, &b = other.outputs_[node].values;
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0);
  }

  /// The layers, each in the type that the run stored it in, where there is one.
  std::vector<LayerTrace> take(const ArithmeticModel& arithmetic) {
    std::vector<LayerTrace> layers;
    for (std::size_t node = 0; node < outputs_.size(); ++node) {
      const FormatId stored = stored_format(arithmetic, graph_.value(graph_.nodes[node].output).type);
      layers.push_back({graph_.nodes[node].name, narrowed(StoredTensor::from(outputs_[node]), stored)});
      outputs_[node] = {};
    }
    return layers;
  }

private:
  /// Every element is a number of the format.
  static StoredTensor narrowed(StoredTensor layer, FormatId stored) {
    for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16})
      if (float_format(type) == stored) return converted(layer, type, "a recorded layer");
    return layer;
  }

  void start(Tensor<Real>& all, const Shape& shape) const {
    all.shape = shape;
    if (!batches_.batched()) all.shape.insert(all.shape.begin(), 1);
    all.shape[0] = batches_.recorded_samples();
    all.values.reserve(static_cast<std::size_t>(element_count(all.shape)));
  }

  const Graph& graph_;
  const Batches& batches_;
  std::vector<RowRange> ranges_;
  std::vector<Tensor<Real>> outputs_;
};

}  // namespace driftbound
