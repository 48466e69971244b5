#pragma once

#include <cstdint>

#include "driftbound/trace/run_alignment.hpp"

namespace driftbound::analysis {

/// Scores from here down are masked: programs add masks of -10^4 and less to scores, and no score is as large.
inline constexpr double least_mask = -5e3;

/// Rows from which on a factor has a standard error.
inline constexpr std::int64_t fewest_rows_of_factor = 8;

/// How far the same value of two runs, x in the first and y in the second, is apart.
struct RunDifference {
  std::int64_t elements = 0;
  std::int64_t differing = 0;  ///< not the same number: signs of zeros apart
  std::int64_t masked = 0;  ///< of scores: other numbers of -5000 or less in both runs, which do not count as differing
  std::int64_t rows = 0;    ///< along the last axis
  std::int64_t identical_rows = 0;
  double largest = 0.0;     ///< max |y - x|, of finite elements
  double rms = 0.0;         ///< root mean square of y - x
  double ulps = 0.0;        ///< max |y - x| in units in the last place of the larger magnitude, in the type of y
  double scale = 0.0;       ///< root mean square of x over the elements that differ
  std::int64_t worst = -1;  ///< row-major number in the second run's value, where |y - x| is largest; -1: nowhere
  double worst_a = 0.0, worst_b = 0.0;
  std::int64_t not_finite_a = 0, not_finite_b = 0;  ///< elements that are not finite in one run alone
  std::int64_t nan_in_both = 0;
  double mean = 0.0;  ///< of y - x
  double mean_error =
      0.0;              ///< standard error of the mean, from the means of rows and of columns; 0: fewer than 32 of one
  double factor = 0.0;  ///< mean over rows of sum x (y - x) / sum x^2: what y is x times, less 1
  double factor_error = 0.0;  ///< standard error of the factor, from the rows; 0: fewer than 8

  bool is_zero() const { return differing == 0; }
  bool is_finite_in_both() const { return not_finite_a == 0 && not_finite_b == 0; }
  /// The root mean square difference of the elements that differ, relative to their scale. Elements that a mask sets to
  /// a large number do not count.
  double relative() const;
};
/// `are_scores`: nothing but softmax and attention reads them, and elements of -5000 or less in both runs are masked.
/// Source:    docs/theory.md T-137
RunDifference difference_of(const AlignedNumbers& numbers, bool are_scores = false);

}  // namespace driftbound::analysis
