#pragma once

#include <cstdint>
#include <vector>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

// Upper bounds of the spectral norm of a matrix and of the norms of its columns.

/// A matrix in memory: element (i, j) is data[i * row_stride + j * column_stride].
struct MatrixView {
  const double* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 0;
};

inline namespace theorems {

/// Upper bound of the largest singular value of W: the smaller of the Frobenius norm and the root of a bound of the
/// largest eigenvalue of W Wᵀ or Wᵀ W. 0 for an empty matrix, infinite if an element is not finite.
/// Guarantee: proven
/// Tightness: relative excess mostly below 2^-11 if singular values cluster at the largest one, 2^-41 + n² 2^-52 if
///            that one is well separated; n is the smaller of rows and columns
/// Source:    docs/theory.md T-63, T-129
Magnitude spectral_norm(const MatrixView& w, int threads);

/// Upper bounds of the 2-norms of the columns; 0 for a column of zeros, infinite if an element is not finite.
/// Shapes:    [columns]
/// Guarantee: proven
/// Tightness: relative excess at most (rows + 4) 2^-52
/// Source:    docs/theory.md T-08, T-63
std::vector<double> column_norms(const MatrixView& w);

}  // namespace theorems

}  // namespace driftbound::bounds
