#pragma once

#include <variant>
#include <vector>

#include "support/trajectory_checks.hpp"
#include "support/transformers.hpp"

/// Every value of a flat graph over the reals, in 700 bits.
namespace checks {

/// One reduction, which apply() does not know.
inline Tensor<Real> reduced(const Node& node, const Tensor<Real>& x, const Shape& shape) {
  const GroupPlan plan = plan_groups(node.op, x.shape);
  Tensor<Real> result(shape);
  for (std::size_t g = 0; g < result.size(); ++g) {
    Real value = x.values[plan.groups[g] + plan.elements[0]];
    for (std::size_t j = 1; j < plan.elements.size(); ++j) {
      const Real& next = x.values[plan.groups[g] + plan.elements[j]];
      if (std::holds_alternative<op::ReduceSum>(node.op))
        value = value + next;
      else if (value < next)
        value = next;
    }
    result.values[g] = value;
  }
  return result;
}

/// Every value of a flat graph over the reals; ReduceMin does not occur.
inline std::vector<Tensor<Real>> evaluated(const Program& program, const Tensor<Real>& x) {
  const Graph& graph = program.flat().graph;
  std::vector<Tensor<Real>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) values[id] = convert<Real>(graph.value(id).constant.to_double());
  }
  values[graph.inputs[0]] = x;
  for (const Node& node : graph.nodes) {
    const Shape& shape = program.shape(node.output);
    const bool reduces =
        std::holds_alternative<op::ReduceSum>(node.op) || std::holds_alternative<op::ReduceMax>(node.op);
    Operands<Real> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    values[node.output] = reduces ? reduced(node, *operands[0], shape) : apply(node.op, operands, shape, {});
  }
  return values;
}

}  // namespace checks
