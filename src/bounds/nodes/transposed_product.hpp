#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "bounds/nodes/transpose.hpp"
#include "driftbound/model/layout.hpp"
#include "evaluate/product.hpp"

namespace driftbound::bounds {

/// One operand's share of C = A B, itself a product: share[b, l, k] = sum_j D[b, l, j] M[b, j, k], M made of the other
/// operand, D of d, and element (l, k) added at target_batch[b] + l target_row + k target_column.
struct ProductShare {
  ProductPlan plan;  ///< strides of D in d, of M in the other operand
  std::vector<std::int64_t> target_batch;
  std::int64_t target_row = 0, target_column = 0;
};
/// Of A: D Bᵀ.
ProductShare share_of_left(const ProductPlan& forward);
/// Of B, transposed: Dᵀ A.
ProductShare share_of_right(const ProductPlan& forward);

/// The matrices M with the 2-norms of their columns, by offset in the other operand: may be kept for any number of d.
struct PackedFactor {
  PackedMatrices<double> matrices;
  std::map<std::int64_t, std::vector<double>> column_norms;  ///< rounded up
};
PackedFactor packed_factor(const ProductShare& share, const Tensor<double>& other);

/// alpha times the share of one operand of `size` elements.
/// Source:    docs/theory.md T-64
Transposed transposed_product(const ProductShare& share, std::span<const double> d, const PackedFactor& factor,
                              double alpha, std::size_t size, const Setting& setting);

}  // namespace driftbound::bounds
