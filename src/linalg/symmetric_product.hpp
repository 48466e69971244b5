#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "linalg/ordered_product.hpp"
#include "linalg/ordered_product_kernels.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {

/// The product A B for operands whose computed product is symmetric bit for bit, such as A Aᵀ and squares of symmetric
/// matrices. Computes the elements on and above the diagonal, a block of rows at a time, and copies the others.
/// Shapes:    A [n, k] row-major; element (k, j) of B is at index k b_row + j b_col of A's values; result [n, n]
/// Guarantee: the same bits as the full product, each sum computed as one chain of fma
template <class Number>
std::vector<Number> symmetric_product(const Tensor<Number>& a, std::int64_t b_row, std::int64_t b_col, int threads) {
  constexpr std::size_t step = 8 * panel_width<Number>;
  const auto n = static_cast<std::size_t>(a.shape[0]), k = static_cast<std::size_t>(a.shape[1]);
  ProductPlan plan;
  plan.m = plan.n = a.shape[0];
  plan.k = a.shape[1];
  plan.a_batch = plan.b_batch = {0};
  plan.a_row = plan.k;
  plan.a_col = 1;
  plan.b_row = b_row;
  plan.b_col = b_col;
  PackedMatrices<Number> packed;
  pack_missing(plan, a, packed);
  std::vector<Number> result(n * n);
  const auto rows_from = [&](std::size_t first) {
    const std::size_t rows = std::min(step, n - first), columns = n - first;
    std::vector<Number> part(rows * columns);
    PackedProduct<Number> product;
    product.a = a.values.data() + first * k;
    product.b = packed.at(0).data() + first * k;
    product.c = part.data();
    product.m = rows;
    product.n = columns;
    product.k = product.chain = k;
    product.fma = true;
    fastest_product_kernels().multiply(product, 0, rows);
    for (std::size_t r = 0; r < rows; ++r)
      std::copy_n(part.data() + r * columns, columns, result.data() + (first + r) * n + first);
    for (std::size_t j = rows; j < columns; ++j)
      for (std::size_t r = 0; r < rows; ++r) result[(first + j) * n + first + r] = part[r * columns + j];
  };
  parallel_for(static_cast<std::int64_t>((n + step - 1) / step), threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) rows_from(static_cast<std::size_t>(i) * step);
  });
  return result;
}

}  // namespace driftbound::bounds
