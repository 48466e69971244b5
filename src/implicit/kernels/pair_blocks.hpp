#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::implicit {

/// Points that go through a network in double-double together: of feature f and point r the high part lies at
/// 2 f pair_rows + r, the low one pair_rows further.
inline constexpr std::size_t pair_rows = 16;
/// Outputs of a dense layer that are computed together.
inline constexpr std::size_t pair_outputs = 4;

/// Loops over blocks of normalised sums of two doubles (T-90, T-114), compiled once per instruction set; all builds give
/// the same bits. `check`, one number a row, stays 0 while every result in that row is finite and is NaN from the first
/// on that is not.
/// Source:    docs/theory.md T-90, T-114
struct PairBlockKernels {
  const char* name;

  /// y = W x + b for doubles W and b, rectified if asked.
  /// Shapes:    `weights` in tiles of pair_outputs outputs, weights of one input side by side; `bias` and y a multiple of
  ///            pair_outputs, of which those beyond `outputs` mean nothing
  using Dense = void (*)(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                         std::size_t outputs, bool rectified, double* check);
  Dense dense;
  /// y = a + b, a - b, a b, a / b, max(a, b), min(a, b). Quotients are NaN where one of the three numbers is out of the
  /// range of T-90.
  using Operation = void (*)(const double* a, const double* b, double* y, std::size_t features, double* check);
  Operation of_values[6];
  /// The same with one double b a feature.
  Operation with_constants[6];
  /// y = x for x >= 0, else alpha y
  using Join = void (*)(const double* x, double alpha, double* y, std::size_t features, double* check);
  Join join;
  /// y = max(x, 0), y = min(x, 0)
  using Part = void (*)(const double* x, double* y, std::size_t features);
  Part rectify, negative_part;
};

DRIFTBOUND_SIMD_BUILDS(PairBlockKernels, pair_blocks);

}  // namespace driftbound::implicit
