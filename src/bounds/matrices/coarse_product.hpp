#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

/// Magnitudes of one matrix in single precision, rounded up, every column scaled by a power of two.
struct CoarseMatrix {
  std::vector<float> packed;          ///< as the product kernels want it
  std::vector<double> column_scales;  ///< back to what they were, and up past all roundings of a sum of products
};

/// Magnitudes of a matrix, their squares, and these with the signs of the elements (only to nearest: sums of products
/// are off by at most coarse_error() of those of the squares), next to how many of a column are not 0 and its norm.
struct CoarseWeights {
  std::size_t k = 0, n = 0;
  CoarseMatrix magnitudes, squares, sides;
  std::vector<double> nonzero, norms, largest;  ///< by column; norms: 2-norms
};

/// Rows times the matrices of CoarseWeights: magnitudes, their squares, and these with signs.
struct CoarseProducts {
  const CoarseWeights* weights = nullptr;
  std::vector<float> total, squares, sides;  ///< [rows, n], scaled
  std::vector<double> scales;                ///< by row, of `total` back; the others go back by their squares
};

/// Domain:    k < 2^21
/// Guarantee: rounded up; empty where an element is not finite, or a column's largest is beyond 2^400 or below 2^-400
/// Source:    docs/theory.md T-81
std::optional<CoarseWeights> coarse_weights(std::span<const double> row_major, std::size_t k, std::size_t n);

/// 2^-e for a largest element in [2^e, 2^(e+1)), e from -400 to 400, and 1 for 0; empty for other numbers.
std::optional<double> coarse_scale(double largest);

/// Rows times a coarse matrix: sums[i, j], to be multiplied by what rows and columns were scaled by.
/// Shapes:    rows [m, k], sums [m, n]
void multiply_coarse(std::span<const float> rows, std::size_t m, const CoarseWeights& weights,
                     const CoarseMatrix& matrix, std::span<float> sums);

}  // namespace driftbound::bounds
