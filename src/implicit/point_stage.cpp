#include "implicit/point_stage.hpp"

#include <algorithm>
#include <limits>

#include "bounds/adjoint/row_walk.hpp"
#include "bounds/adjoint/weights.hpp"
#include "bounds/machine.hpp"
#include "bounds/rules.hpp"

namespace driftbound::implicit {
namespace {

using bounds::Network;
using bounds::RowWalk;
using bounds::Setting;
using bounds::Weights;

constexpr std::int64_t rows_of_a_block = 64;

Shape with_rows(Shape shape, std::int64_t rows) {
  shape.at(0) = rows;
  return shape;
}

/// The network for a fixed number of rows.
struct Walk {
  Walk(const Graph& graph, const Shape& sample, std::int64_t rows_at_a_time, const Setting& setting, Weights& weights)
      : rows(rows_at_a_time),
        shape(with_rows(sample, rows)),
        network(graph, {shape}, rows),
        walk(network.keeps_rows_apart() ? RowWalk::of(network, setting, weights) : nullptr) {}

  std::int64_t rows;
  Shape shape;
  Network network;
  std::shared_ptr<const RowWalk> walk;
};

class RowWalkStage final : public PointStage {
public:
  RowWalkStage(const Graph& graph, const Shape& sample)
      : arithmetic_(cpu_arithmetic("fp64", {SummationOrder::Kind::sequential, 0, false})),
        setting_(setting_of(arithmetic_)),
        dimension_(static_cast<std::size_t>(element_count(sample))),
        one_(graph, sample, 1, setting_, weights_),
        block_(graph, sample, rows_of_a_block, setting_, weights_) {}

  bool is_possible() const { return one_.walk != nullptr && block_.walk != nullptr; }

  void evaluate(std::span<const double> points, std::span<double> values, std::span<double> bounds) const override {
    const Walk& walk = values.size() == 1 ? one_ : block_;
    const auto rows = static_cast<std::size_t>(walk.rows);
    for (std::size_t first = 0; first < values.size(); first += rows) {
      const std::size_t count = std::min(rows, values.size() - first);
      evaluate(walk, points.subspan(first * dimension_, count * dimension_), values.subspan(first, count),
               bounds.subspan(first, count));
    }
  }

private:
  static Setting setting_of(const ArithmeticModel& arithmetic) {
    Setting setting;
    setting.arithmetic = &arithmetic;
    setting.machine = bounds::machine_of(arithmetic);
    setting.rules = &bounds::default_rules();
    return setting;
  }

  /// The last rows of a block that is not full repeat its first point.
  void evaluate(const Walk& walk, std::span<const double> points, std::span<double> values,
                std::span<double> bounds) const {
    Tensor<double> input(walk.shape);
    std::copy(points.begin(), points.end(), input.values.begin());
    for (std::size_t i = points.size(); i < input.size(); ++i) input.values[i] = points[i % dimension_];
    const ValueId scalar = walk.network.flat().graph.outputs.front();
    const auto visit = [&](ValueId id, const Tensor<double>& shadow, std::span<const double> radii) {
      if (id != scalar) return;
      for (std::size_t row = 0; row < values.size(); ++row) {
        values[row] = shadow.values[shadow.size() == 1 ? 0 : row];
        bounds[row] = radii.empty() ? 0.0 : radii[radii.size() == 1 ? 0 : row];
      }
    };
    std::fill(bounds.begin(), bounds.end(), std::numeric_limits<double>::infinity());
    if (!walk.walk->run(walk.network, {std::move(input)}, {{}}, setting_, visit))
      std::fill(bounds.begin(), bounds.end(), std::numeric_limits<double>::infinity());
  }

  ArithmeticModel arithmetic_;
  Setting setting_;
  Weights weights_;
  std::size_t dimension_;
  Walk one_, block_;
};

}  // namespace

std::unique_ptr<const PointStage> PointStage::of(const Graph& graph) {
  const BatchLayout layout = batch_layout(graph);
  if (!layout.batched) return nullptr;
  auto stage = std::make_unique<const RowWalkStage>(graph, layout.sample_shapes.front());
  if (!stage->is_possible()) return nullptr;
  return stage;
}

}  // namespace driftbound::implicit
