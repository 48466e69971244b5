#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "bounds/nodes/transpose.hpp"
#include "driftbound/model/layout.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {

// The adjoints of the operands of a matrix product, with their defects (T-64).

/// The share of one operand of C = A B in the adjoint, as a matrix product: share[b, l, k] = sum_j D[b, l, j] M[b, j,
/// k]. D is d, possibly transposed, and M is the other operand, possibly transposed. Element (l, k) of batch b is added
/// to the element at target_batch[b] + l target_row + k target_column of the operand's share.
struct ProductShare {
  ProductPlan plan;  ///< left operand: D, as strides in d; right operand: M, as strides in the other operand
  std::vector<std::int64_t> target_batch;
  std::int64_t target_row = 0, target_column = 0;
};
/// Returns the share of A: D Bᵀ.
ProductShare share_of_left(const ProductPlan& forward);
/// Returns the share of B, computed as its transpose Dᵀ A.
ProductShare share_of_right(const ProductPlan& forward);

/// The matrices M, packed, and the 2-norms of their columns, by offset in the other operand. They do not depend on d.
struct PackedFactor {
  PackedMatrices<double> matrices;
  std::map<std::int64_t, std::vector<double>> column_norms;  ///< rounded up
};
PackedFactor packed_factor(const ProductShare& share, const Tensor<double>& other);

/// Returns alpha times the share of an operand with `size` elements, and the defects.
/// Source:    docs/theory.md T-64
Transposed transposed_product(const ProductShare& share, std::span<const double> d, const PackedFactor& factor,
                              double alpha, std::size_t size, const Setting& setting);

}  // namespace driftbound::bounds
