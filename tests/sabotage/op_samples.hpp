#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/reference/reference.hpp"
#include "support/bound_checks.hpp"

/// Runs of one op by the CPU evaluator, with the certified references of their last layer.
namespace checks {

struct OpSample {
  Graph graph;
  Trace trace;
  Tensor<Ball> local, exact;
};

struct SampleKind {
  bool passes_cast = false;      ///< operands go through a Cast to float16, whose errors dwarf the roundings of the op
  bool stores_narrowly = false;  ///< results are kept in bfloat16
};

inline double nearest_bf16(double x) {
  return round_to(x, format(FormatId::bf16), Rounding::nearest_even);
}

inline OpSample sample_of(const Op& op, const std::vector<Tensor<double>>& operands, const SampleKind& kind = {}) {
  OpSample sample;
  Inputs inputs;
  std::vector<ValueId> ids;
  std::vector<Shape> shapes;
  for (const Tensor<double>& operand : operands) {
    const std::string name = "x" + std::to_string(ids.size());
    ids.push_back(add_fixed_input(sample.graph, name, ElementType::f32, operand.shape));
    inputs.tensors.emplace_back(name, StoredTensor::from(operand));
    shapes.push_back(operand.shape);
  }
  for (ValueId& id : ids) {
    if (kind.passes_cast) id = sample.graph.add_node("cast" + std::to_string(id), op::Cast{ElementType::f16}, {id});
  }
  sample.graph.outputs = {sample.graph.add_node("y", op, ids)};
  const SummationOrder order{SummationOrder::Kind::sequential, 0, false};
  const std::vector<Shape> inferred = infer_shapes(sample.graph, shapes);
  sample.trace = cpu_evaluator(cpu_arithmetic("fp32", order)).run(sample.graph, inputs);
  for (std::size_t node = 0; node < sample.trace.layers.size(); ++node) {
    Tensor<double> output = sample.trace.layers[node].output.to_double();
    output.shape = inferred[sample.graph.nodes[node].output];
    if (kind.stores_narrowly && is_float(sample.graph.value(sample.graph.nodes[node].output).type)) {
      for (double& y : output.values) y = nearest_bf16(y);
    }
    sample.trace.layers[node].output = StoredTensor::from(output);
  }
  if (kind.stores_narrowly) sample.trace.arithmetic.output = FormatId::bf16;
  sample.local = local_reference(sample.graph, sample.trace).layers.back();
  sample.exact = certified_reference(sample.graph, inputs).layers.back();
  return sample;
}

inline bool claims_to_hold(const BoundResult& result) {
  return result.guarantee == Guarantee::proven || result.guarantee == Guarantee::conditional;
}

/// Finite results that are certainly further from the exact ones than a bound allows.
inline std::int64_t violations_of(const std::vector<BoundResult>& bounds, const OpSample& sample,
                                  const Tensor<Ball>& exact) {
  const std::vector<double> computed = sample.trace.layers.back().output.to_double().values;
  std::int64_t violations = 0;
  for (const BoundResult& result : bounds) {
    if (!claims_to_hold(result)) continue;
    for (std::size_t i = 0; i < computed.size(); ++i) {
      if (!std::isfinite(computed[i]) || !exact.values[i].is_finite()) continue;
      violations += error_of(computed[i], exact.values[i]).lower() <= result.values.values[i] ? 0 : 1;
    }
  }
  return violations;
}

inline Bounds bounds_of(const OpSample& sample) {
  BoundOptions options;
  options.trace_is_declared_run = true;
  return bound(sample.graph, sample.trace, options);
}

}  // namespace checks
