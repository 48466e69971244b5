#pragma once

#include <span>

#include "driftbound/model/ops.hpp"
#include "reference/ball_tensor.hpp"

namespace driftbound {

/// The exact function of one op on tensors of balls of `bits` bits.
/// Guarantee: every real tensor in the operands has its exact result in the result.
/// Throws:    ShapeMismatch
/// Source:    docs/theory.md T-31 to T-35
BallTensor apply(const Op& op, std::span<const BallTensor* const> inputs, const Shape& output, int bits);

}  // namespace driftbound
