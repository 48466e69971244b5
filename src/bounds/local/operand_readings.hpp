#pragma once

#include <optional>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// Compares the recorded results of a Gemm or MatMul, or of the product that a Conv or Einsum is, with its exact results
/// for all readings of the operands, on up to 128 elements that use rows and columns evenly. `exact` are the exact results
/// at the recorded operands. Empty for other ops, and where no exact result is finite.
/// Source:    docs/theory.md T-134
std::optional<ReadingTest> test_operand_readings(const NodeView& view, const Setting& setting,
                                                 const Tensor<Ball>& exact);

}  // namespace driftbound::bounds
