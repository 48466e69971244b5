#pragma once

#include <cstddef>
#include <span>

#include "reference/pair_apply.hpp"
#include "reference/product.hpp"

namespace driftbound {

/// Rows of balls times the rows of a matrix of exact numbers that is kept for products of pairs, into c from element
/// `first` on: slices of the midpoints, each so short that its product is exact in double-double, are multiplied by
/// residues and added up exactly. False, with c as it was, where no residues of the matrix are kept.
/// Shapes:    rows: m vectors of place.length; c: m place.rows elements, row by row
/// Guarantee: proven: every pair of points has its exact sums in c; each row's result depends on that row alone
/// Source:    docs/theory.md T-127
bool multiply_by_slices(BallTensor& c, std::size_t first, std::span<const BallVector> rows, const PairInput& b,
                        const KeptMatrices::Place& place);

}  // namespace driftbound
