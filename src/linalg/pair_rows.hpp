#pragma once

#include <cstddef>

namespace driftbound::linalg {

/// Rows of numbers high + low in memory, |low| at most half a unit in the last place of high: element l of row i lies
/// at [i * row_step + l * step] of both. `low` may be null: zeros.
struct PairRows {
  const double* high = nullptr;
  const double* low = nullptr;
  std::size_t rows = 0, length = 0;
  std::ptrdiff_t row_step = 0, step = 1;
};

/// Where the sums of a product A B^T go, [rows of A, rows of B], row-major each.
struct PairSums {
  double* high;
  double* low;
  double* radius;
};

}  // namespace driftbound::linalg
