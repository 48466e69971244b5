#pragma once

#include <random>

#include "driftbound/model/graph.hpp"
#include "model/naive.hpp"

/// Whether what a graph computes of several rows together is what it computes of each row alone, by naive evaluation.
namespace rows {

using namespace driftbound;

/// Every value of the graph for one input tensor.
inline std::vector<Tensor<double>> naive_run(const Graph& graph, const Tensor<double>& input) {
  const std::vector<Shape> shapes = infer_shapes(graph, {input.shape});
  std::vector<Tensor<double>> values(graph.values.size());
  for (std::size_t id = 0; id < values.size(); ++id) {
    if (graph.is_constant(id)) values[id] = graph.value(id).constant.to_double();
  }
  values[graph.inputs[0]] = input;
  for (const Node& node : graph.nodes) {
    std::vector<Tensor<double>> operands;
    for (const ValueId id : node.inputs) operands.push_back(values[id]);
    values[node.output] = naive::evaluate(node.op, operands, shapes[node.output]);
  }
  return values;
}

/// Entry `row` along an axis, with extent 1.
inline Tensor<double> entry_of(const Tensor<double>& all, std::size_t axis, std::int64_t row) {
  Shape one = all.shape;
  one[axis] = 1;
  Tensor<double> entry(one);
  std::int64_t behind = 1;
  for (std::size_t i = axis + 1; i < all.shape.size(); ++i) behind *= all.shape[i];
  for (std::size_t i = 0; i < entry.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const std::int64_t before = index / behind;
    entry.values[i] = all.values[static_cast<std::size_t>((before * all.shape[axis] + row) * behind + index % behind)];
  }
  return entry;
}

/// Whether the value holds, along some axis, what each row gives alone.
inline bool holds_rows(const Tensor<double>& together, const std::vector<Tensor<double>>& alone) {
  const auto samples = static_cast<std::int64_t>(alone.size());
  for (std::size_t axis = 0; axis < together.shape.size(); ++axis) {
    bool is_apart = together.shape[axis] == samples;
    for (std::int64_t row = 0; row < samples && is_apart; ++row) {
      const Tensor<double> mine = entry_of(together, axis, row);
      const Tensor<double>& other = alone[static_cast<std::size_t>(row)];
      is_apart = mine.shape == other.shape && mine.values == other.values;
    }
    if (is_apart) return true;
  }
  return false;
}

/// Whether every value that depends on the input holds, along some axis, what each row of the input gives alone.
/// Throws:    ShapeMismatch where there is no run of so many rows, or of one
inline bool stay_apart(const Graph& graph, std::mt19937_64& random, Shape shape, std::int64_t samples) {
  shape[0] = samples;
  const Tensor<double> all = naive::integers(random, shape);
  const std::vector<bool> depends = depends_on_input(graph);
  const std::vector<Tensor<double>> together = naive_run(graph, all);
  std::vector<std::vector<Tensor<double>>> alone;
  for (std::int64_t row = 0; row < samples; ++row) alone.push_back(naive_run(graph, entry_of(all, 0, row)));
  for (std::size_t id = 0; id < together.size(); ++id) {
    if (!depends[id]) continue;
    std::vector<Tensor<double>> value;
    for (const std::vector<Tensor<double>>& run : alone) value.push_back(run[id]);
    if (!holds_rows(together[id], value)) return false;
  }
  return true;
}

}  // namespace rows
