#pragma once

#include <optional>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// A value with the axis that counts samples; none where all samples share the value.
struct SampleOperand {
  Shape shape;
  std::optional<std::size_t> axis;
};

/// The axis of the result that counts samples: entry i of it depends on entry i of every operand's alone. None where
/// that is not seen, or no operand counts samples. The rows may lie anywhere, between heads and tokens too: Transpose
/// moves them, Reshape leaves them where as many elements lie before and behind.
std::optional<std::size_t> sample_axis_of(const Op& op, const std::vector<SampleOperand>& operands,
                                          const Shape& result);

}  // namespace driftbound
