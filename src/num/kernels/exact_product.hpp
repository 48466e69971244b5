#pragma once

#include <cstddef>
#include <cstdint>

namespace driftbound::num {

/// A row of float32 numbers, as T-83 asks about it.
struct ExactRow {
  double squares = 0.0;   ///< sum of the squares in double, to nearest; not finite where an element is not
  std::int32_t unit = 0;  ///< 2^unit is the largest power of two that divides every element; no_unit for zeros
};

/// The exponent that stands for "every power of two divides 0"; sums of two of them fit 16 bits.
inline constexpr std::int16_t no_unit = 8000;

/// One build of the exact product for one instruction set. A tile is `rows` rows of A by `columns` rows of B; panels
/// hold that many rows side by side, [length, rows] and [length, columns].
struct ExactKernels {
  const char* name;
  std::size_t rows, columns;

  /// Steps of the two accumulators (T-83) and the renormalisation after them. State: S, then L, [rows, columns] each.
  void (*two)(const double* a, const double* b, std::size_t steps, double* state);
  /// Steps of the three accumulators (T-84). State: S, M, L.
  void (*three)(const double* a, const double* b, std::size_t steps, double* state);
  /// high + low = (S - 3 + L) scale_a scale_b, exactly, [rows, columns] each.
  void (*finish)(const double* state, const double* scale_a, const double* scale_b, double* high, double* low);

  ExactRow (*describe)(const float* row, std::size_t length);
  /// units[l] = min(units[l], exponent of the last bit of row[l] - exponent), no_unit for 0.
  void (*lower_units)(const float* row, std::size_t length, std::int32_t exponent, std::int16_t* units);
  /// min over l of a[l] + b[l].
  std::int32_t (*lowest)(const std::int16_t* a, const std::int16_t* b, std::size_t length);
  /// panel[l * width] = row[l] * scale.
  void (*place)(const float* row, std::size_t length, double scale, std::size_t width, double* panel);
};

extern const ExactKernels exact_baseline;
extern const ExactKernels exact_avx2;    // x86-64 builds only
extern const ExactKernels exact_avx512;  // x86-64 builds only

}  // namespace driftbound::num
