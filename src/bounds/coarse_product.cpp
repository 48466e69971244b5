#include "bounds/coarse_product.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/adjoint/norm_rules.hpp"
#include "bounds/row_kernels.hpp"
#include "evaluate/product_kernels.hpp"

namespace driftbound::bounds {
namespace {

/// One column of scaled numbers into its place among the packed panels.
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

std::optional<CoarseWeights> coarse_weights(std::span<const double> row_major, std::size_t k, std::size_t n,
                                            double (*error)(std::size_t)) {
  const RowKernels& rows = fastest_row_kernels();
  constexpr std::size_t width = panel_width<float>;
  if (k >= std::size_t{1} << 21) return std::nullopt;
  const std::vector<float> nothing((n + width - 1) / width * width * k);
  CoarseWeights weights{k, n, {nothing, {}}, {nothing, {}}, {nothing, {}}, {}, {}, {}};
  const double outward = 1.0 + error(k);
  std::vector<double> column(k);
  std::vector<float> coarse(k);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < k; ++i) column[i] = row_major[i * n + j];
    weights.largest.push_back(rows.largest(column.data(), k));
    const std::optional<double> scale = coarse_scale(weights.largest.back());
    if (!scale) return std::nullopt;
    rows.coarse(column.data(), *scale, coarse.data(), k);
    pack_column(coarse, j, weights.magnitudes.packed);
    weights.magnitudes.column_scales.push_back(outward / *scale);
    rows.coarse_squares(column.data(), *scale, coarse.data(), k);
    pack_column(coarse, j, weights.squares.packed);
    weights.squares.column_scales.push_back(outward / (*scale * *scale));
    rows.coarse_sides(column.data(), *scale, coarse.data(), k);
    pack_column(coarse, j, weights.sides.packed);
    weights.sides.column_scales.push_back(1.0 / (*scale * *scale));
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
