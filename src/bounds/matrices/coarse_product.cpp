#include "bounds/matrices/coarse_product.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/kernels/row_kernels.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/norms.hpp"
#include "linalg/ordered_product_kernels.hpp"

namespace driftbound::bounds {
namespace {

/// Number of doubles in a cache line.
constexpr std::size_t columns_of_a_line = 8;

/// Copies up to columns_of_a_line columns of a matrix [k, n], from `first` on, one after the other.
void gather_columns(std::span<const double> row_major, std::size_t k, std::size_t n, std::size_t first,
                    std::vector<double>& columns) {
  const std::size_t count = std::min(columns_of_a_line, n - first);
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t c = 0; c < count; ++c) columns[c * k + i] = row_major[i * n + first + c];
}

/// Copies column j to its place in the packed panels.
void pack_column(const std::vector<float>& column, std::size_t j, std::vector<float>& packed) {
  constexpr std::size_t width = panel_width<float>;
  float* first = packed.data() + j / width * column.size() * width + j % width;
  for (std::size_t i = 0; i < column.size(); ++i) first[i * width] = column[i];
}

}  // namespace

std::optional<double> coarse_scale(double largest) {
  if (largest == 0.0) return 1.0;
  if (!(largest >= 0x1p-400 && largest <= 0x1p400)) return std::nullopt;
  return std::ldexp(1.0, -std::ilogb(largest));
}

std::optional<CoarseWeights> coarse_weights(std::span<const double> row_major, std::size_t k, std::size_t n) {
  const RowKernels& rows = fastest_row_kernels();
  constexpr std::size_t width = panel_width<float>;
  if (k >= std::size_t{1} << 21) return std::nullopt;
  const std::vector<float> nothing((n + width - 1) / width * width * k);
  CoarseWeights weights{k, n, {nothing, {}}, {nothing, {}}, {nothing, {}}, {}, {}, {}};
  const double outward = 1.0 + theorems::coarse_error(k);
  std::vector<double> columns(columns_of_a_line * k);
  std::vector<float> coarse(k);
  for (std::size_t j = 0; j < n; ++j) {
    if (j % columns_of_a_line == 0) gather_columns(row_major, k, n, j, columns);
    const std::span<const double> column(columns.data() + j % columns_of_a_line * k, k);
    weights.largest.push_back(rows.largest(column.data(), k));
    const std::optional<double> scale = coarse_scale(weights.largest.back());
    if (!scale) return std::nullopt;
    rows.coarse(column.data(), *scale, coarse.data(), k);
    pack_column(coarse, j, weights.magnitudes.packed);
    weights.magnitudes.column_scales.push_back(outward / *scale);
    rows.coarse_squares(column.data(), *scale, coarse.data(), k);
    pack_column(coarse, j, weights.squares.packed);
    weights.squares.column_scales.push_back(outward / (*scale * *scale));
    rows.coarse_signed_squares(column.data(), *scale, coarse.data(), k);
    pack_column(coarse, j, weights.signed_squares.packed);
    weights.signed_squares.column_scales.push_back(1.0 / (*scale * *scale));
    weights.nonzero.push_back(rows.count_nonzero(column.data(), k));
    weights.norms.push_back(norm_of_vector(column).value());
  }
  return weights;
}

void multiply_coarse(std::span<const float> rows, std::size_t m, const CoarseWeights& weights,
                     const CoarseMatrix& matrix, std::span<float> sums) {
  PackedProduct<float> product;
  product.a = rows.data();
  product.b = matrix.packed.data();
  product.c = sums.data();
  product.m = m;
  product.n = weights.n;
  product.k = weights.k;
  product.chain = weights.k;
  product.fma = true;
  fastest_product_kernels().multiply(product, 0, m);
}

}  // namespace driftbound::bounds
