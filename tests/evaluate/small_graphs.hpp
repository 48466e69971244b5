#pragma once

#include <random>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::tests {

inline constexpr std::int64_t open = -1;  // an open axis

inline std::vector<DeclaredDimension> dimensions(const Shape& extents) {
  std::vector<DeclaredDimension> result;
  for (const std::int64_t extent : extents) result.push_back({extent, extent < 0 ? "N" : ""});
  return result;
}

template <class Real>
Tensor<Real> tensor(Shape shape, std::vector<Real> values) {
  return Tensor<Real>(std::move(shape), std::move(values));
}

template <class Real>
Tensor<Real> random_tensor(Shape shape, std::mt19937_64& random, double scale = 1.0) {
  Tensor<Real> result(std::move(shape));
  for (Real& x : result.values) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    x = static_cast<Real>(scale * (2.0 * unit - 1.0));
  }
  return result;
}

inline Inputs inputs(std::vector<std::pair<std::string, StoredTensor>> tensors) {
  Inputs result;
  result.tensors = std::move(tensors);
  return result;
}

template <class Real>
ElementType element_type_of() {
  return sizeof(Real) == 4 ? ElementType::f32 : ElementType::f64;
}

/// A graph of one op whose inputs are graph inputs of exactly these shapes.
template <class Real>
Graph graph_of(const Op& op, const std::vector<Tensor<Real>>& operands) {
  Graph graph;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ids.push_back(graph.add_input("x" + std::to_string(i), element_type_of<Real>(), dimensions(operands[i].shape)));
  }
  graph.outputs = {graph.add_node("y", op, ids)};
  return graph;
}

template <class Real>
Inputs inputs_of(const std::vector<Tensor<Real>>& operands) {
  Inputs result;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    result.tensors.emplace_back("x" + std::to_string(i), StoredTensor::from(operands[i]));
  }
  return result;
}

/// The op applied once, in the arithmetic named; results as doubles, without the sample axis.
template <class Real>
Tensor<double> apply(const Op& op, const std::vector<Tensor<Real>>& operands, const ArithmeticModel& arithmetic) {
  const Trace trace = cpu_evaluator(arithmetic).run(graph_of(op, operands), inputs_of(operands));
  Tensor<double> y = trace.layers.at(0).output.to_double();
  y.shape.erase(y.shape.begin());
  return y;
}

}  // namespace driftbound::tests
