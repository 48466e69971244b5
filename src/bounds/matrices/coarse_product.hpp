#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

// Products of rows with a matrix in single precision: upper bounds of sums of magnitudes and of squares (T-81).

/// A matrix in single precision, each column scaled by a power of two.
struct CoarseMatrix {
  std::vector<float> packed;          ///< in the layout of the product kernels
  std::vector<double> column_scales;  ///< inverse scale factors; those of bounds also cover the roundings of a sum
};

/// For a matrix w: |w| and w^2, rounded up, and w |w|, rounded to nearest: sums of products with w |w| have an error of
/// at most coarse_error() times those with w^2. Per column: the number of nonzero elements, the 2-norm and the largest
/// magnitude.
struct CoarseWeights {
  std::size_t k = 0, n = 0;
  CoarseMatrix magnitudes, squares, signed_squares;
  std::vector<double> nonzero, norms, largest;  ///< [n]
};

/// Products of rows x with the matrices of CoarseWeights: |x| |w|, x^2 w^2, and x |x| times w |w|.
struct CoarseProducts {
  const CoarseWeights* weights = nullptr;
  std::vector<float> total, squares, signed_squares;  ///< [rows, n], scaled
  std::vector<double> scales;  ///< [rows]: inverse scale factors of `total`; their squares for the others
};

/// Guarantee: |w| and w^2 are rounded up. Returns nothing if k >= 2^21, if an element is not finite, or if a column's
///            largest magnitude lies outside [2^-400, 2^400] and is not 0
/// Shapes:    row_major [k, n]
/// Source:    docs/theory.md T-81
std::optional<CoarseWeights> coarse_weights(std::span<const double> row_major, std::size_t k, std::size_t n);

/// 2^-e for `largest` in [2^e, 2^(e+1)), 2^-400 <= largest <= 2^400; 1 for 0; nothing for other numbers.
std::optional<double> coarse_scale(double largest);

/// sums = rows times a matrix of `weights`. The sums are to be multiplied by the inverse scale factors of row and
/// column.
/// Shapes:    rows [m, k], sums [m, n]
void multiply_coarse(std::span<const float> rows, std::size_t m, const CoarseWeights& weights,
                     const CoarseMatrix& matrix, std::span<float> sums);

}  // namespace driftbound::bounds
