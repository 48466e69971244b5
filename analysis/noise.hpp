#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace driftbound::analysis {

/// How the differences of two runs hang together: rows are samples, columns the elements of a row.
struct NoiseStructure {
  std::int64_t rows = 0,
               columns = 0;  ///< used; columns that are constant, and rows beyond what time allows, are left out
  /// sum over i != j of |C_ij| over sum of all |C_ij|, C the covariance of the columns.
  double off_share = 0.0;
  double off_share_if_independent = 0.0;  ///< its expectation for independent normal columns of these variances
  /// Probability of columns as correlated, if they are independent (Schott's test): small where there is evidence.
  double p_correlation = 1.0;
  double largest_eigenvalue = 0.0;  ///< of the correlation matrix
  double edge = 0.0;  ///< of Marchenko and Pastur, (1 + sqrt(columns / rows))^2: the largest of independent ones
  double mean = 0.0;
  double p_mean = 1.0;  ///< probability of means of rows as far from 0, if their signs are random
};

/// Shapes:    `differences`: [rows, columns], row-major
/// Returns:   empty for fewer than 64 rows or 4 columns with a variance, and where numbers are not finite
/// Guarantee: none: tests of significance. Rows are taken as independent
/// Source:    J. R. Schott, Testing for complete independence in high dimensions, Biometrika 92 (2005); docs/theory.md T-139
std::optional<NoiseStructure> estimate_noise_structure(std::span<const double> differences, std::int64_t columns);

}  // namespace driftbound::analysis
