#pragma once

#include <span>

#include "driftbound/model/ops.hpp"
#include "reference/kept_matrices.hpp"
#include "reference/pair_tensor.hpp"

namespace driftbound {

/// An operand, and where it stays the same from call to call what is kept of it.
struct PairInput {
  const PairTensor* tensor = nullptr;
  KeptMatrices* kept = nullptr;
  int most_bits = linalg::most_row_bits;  ///< of a row, in a product: behind them it may be cut off
};

/// The exact function of one op on balls with double-double midpoints, as apply(); ops without a rule of their own go
/// through balls of 128 bits. Where the result has several parts, operands that vary have as many, and each part of the
/// result depends on its own parts alone.
/// Guarantee: every real tensor in the operands has its exact result in the result
/// Throws:    ShapeMismatch
/// Source:    docs/theory.md T-07, T-86, T-87, T-89
PairTensor apply(const Op& op, std::span<const PairInput> inputs, const Shape& output, std::size_t parts);

}  // namespace driftbound
