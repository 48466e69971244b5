#pragma once

#include <cstdint>
#include <random>
#include <utility>

#include "driftbound/model/graph.hpp"

/// Small networks for the steps that are packed.
namespace step_networks {

using namespace driftbound;

inline Tensor<float> random_tensor(Shape shape, double scale, std::mt19937_64& generator) {
  std::normal_distribution<double> normal(0.0, scale);
  Tensor<float> tensor(std::move(shape));
  for (float& x : tensor.values) x = static_cast<float>(normal(generator));
  return tensor;
}

/// One hidden layer of `width`, then `middle`, then a sum.
template <class Middle>
Graph small_network(std::int64_t width, std::uint64_t seed, const Middle& middle) {
  std::mt19937_64 generator(seed);
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {3, ""}});
  const auto constant = [&](const char* name, Shape shape, double scale) {
    return graph.add_constant(name, StoredTensor::from(random_tensor(std::move(shape), scale, generator)));
  };
  const auto w = constant("w", {3, width}, 0.8), b = constant("b", {width}, 0.3), v = constant("v", {width, 1}, 0.5);
  const auto hidden = graph.add_node("hidden", op::Gemm{}, {x, w, b});
  const ValueId result = middle(graph, hidden, constant);
  graph.outputs = {graph.add_node("sum", op::MatMul{}, {result, v})};
  return graph;
}

template <class Op>
auto function(Op op) {
  return [op](Graph& graph, ValueId x, const auto&) { return graph.add_node("function", op, {x}); };
}

}  // namespace step_networks
