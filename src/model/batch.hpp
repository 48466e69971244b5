#pragma once

#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// One operand of a node as the rules of batching see it. A value that depends on the graph's input holds one sample in
/// each row of axis 0; any other is the same for all samples.
struct BatchOperand {
  Shape shape;
  bool per_sample = false;
};

/// Whether row i of the result depends on row i of every per-sample operand alone, given that the result has one row a
/// sample.
bool keeps_samples_apart(const Op& op, const std::vector<BatchOperand>& operands, const Shape& result);

/// Whether axis 0 of the input may count samples: it is left open, or declared for one sample.
bool may_count_samples(const Value& input);

/// The declared input shapes with a number in place of each axis 0 that may count samples.
std::vector<Shape> declared_shapes(const Graph& graph, std::int64_t axis_0);

}  // namespace driftbound
