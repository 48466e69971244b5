#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/target.hpp"

namespace driftbound::linalg {

/// The exponent that stands for "every power of two divides 0"; sums of two of them fit 16 bits.
inline constexpr std::int16_t no_unit = 8000;

/// Steps between renormalisations (T-83).
inline constexpr std::size_t steps_between = 511;
/// The same between those of sums of pairs (T-86).
inline constexpr std::size_t pair_steps_between = 32;

/// One build of the exact product for one instruction set. A tile is `rows` rows of A by `columns` rows of B; panels
/// hold that many rows side by side, [length, rows] and [length, columns].
struct ExactKernels {
  const char* name;
  std::size_t rows, columns;

  /// Steps of the two accumulators (T-83) and the renormalisation after them. State: S, then L, [rows, columns] each.
  void (*two)(const double* a, const double* b, std::size_t steps, double* state);
  /// Steps of the three accumulators (T-84). State: S, M, L.
  void (*three)(const double* a, const double* b, std::size_t steps, double* state);
  /// Steps of two accumulators for factors high + low (T-86), renormalised every pair_steps_between of them and at the
  /// end. A low part may be null: zeros. State: S, then L.
  void (*pairs)(const double* a, const double* a_low, const double* b, const double* b_low, std::size_t steps,
                double* state);
  /// high + low = (S - 3 + L) scale_a scale_b, exactly, [rows, columns] each.
  void (*finish)(const double* state, const double* scale_a, const double* scale_b, double* high, double* low);

  /// Sum of the squares in double, to nearest; not finite where an element is not.
  double (*squares)(const float* row, std::size_t length);
  /// units[l] = min(units[l], exponent of the last bit of row[l] - exponent), no_unit for 0; the lowest of the row.
  std::int32_t (*lower_units)(const float* row, std::size_t length, std::int32_t exponent, std::int16_t* units);
  /// min over l of a[l] + b[l].
  std::int32_t (*lowest)(const std::int16_t* a, const std::int16_t* b, std::size_t length);
  /// panel[l * width + r] = rows[r][l] * factors[r], width = `rows` or `columns` of a tile.
  void (*pack_rows)(const float* const* rows, const double* factors, std::size_t length, double* panel);
  void (*pack_columns)(const float* const* rows, const double* factors, std::size_t length, double* panel);
};

DRIFTBOUND_SIMD_BUILDS(ExactKernels, exact);

}  // namespace driftbound::linalg
