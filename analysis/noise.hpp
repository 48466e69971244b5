#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace driftbound::analysis {

/// How the differences of two runs hang together: rows are samples, columns the elements of a row.
struct NoiseStructure {
  std::int64_t all_rows = 0;       ///< given
  std::int64_t repeated_rows = 0;  ///< of them, those that another row is like in both runs: one of each is used
  std::int64_t rows = 0,
               columns = 0;  ///< used; columns that are constant, and rows beyond what time allows, are left out
  double differing = 0.0;    ///< share of elements, in the rows used, that differ
  /// sum over i != j of |C_ij| over sum of all |C_ij|, C the covariance of the columns.
  double off_share = 0.0;
  double off_share_if_independent = 0.0;  ///< what it is where rows are permuted within every column by itself
  /// Probability of columns as correlated, if they are independent: small where there is evidence.
  double p_correlation = 1.0;
  /// Of the sum of squared correlations alone, under both nulls: permuted rows, and random signs.
  double p_permuted = 1.0, p_signs = 1.0;
  double largest_eigenvalue = 0.0;  ///< of the correlation matrix
  double edge = 0.0;  ///< of Marchenko and Pastur, (1 + sqrt(columns / rows))^2: the largest of independent normal ones
  std::optional<double> p_eigenvalue;  ///< of the largest eigenvalue, under the worse null; empty: no null is known
  std::int64_t draws = 0, drawn_columns = 0;  ///< of each null, and the columns that they were made of
  double mean = 0.0;
  double p_mean = 1.0;  ///< probability of means of rows as far from 0, if their signs are random
  /// Mean of difference * sign of the number: negative toward zero. The mean of what the signs of both runs give.
  double mean_outward = 0.0;
  double p_outward = 1.0;  ///< the same of this mean: the larger one of both runs' signs; 1 where these do not agree
};

/// Shapes:    `first`, `second`: the numbers of two runs, [rows, columns], row-major
/// Returns:   empty for fewer than 64 rows or 4 columns with a variance, and where numbers are not finite
/// Guarantee: none: tests of significance. Rows are taken as independent, but for those that are repeated
/// Source:    docs/theory.md T-139, T-180
std::optional<NoiseStructure> estimate_noise_structure(std::span<const double> first, std::span<const double> second,
                                                       std::int64_t columns);

/// The sum of squared correlations of all pairs of columns if the rows of every column are permuted by themselves.
struct PermutedMoments {
  double mean = 0.0, variance = 0.0;
};
/// `fourths`: of every column sum (x - mean)^4 / (sum (x - mean)^2)^2
/// Domain:    rows >= 4
/// Source:    docs/theory.md T-180 (a)
PermutedMoments moments_if_permuted(std::span<const double> fourths, std::int64_t rows);

}  // namespace driftbound::analysis
