#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::num {

/// Functions of `DoubleDoubleKernels`, in the order of the table.
enum class DoubleDoubleFunction : unsigned char {
  exp,
  expm1,
  log,
  log1p,
  tanh,
  sigmoid,
  softplus,
  sin,
  cos,
  erf,
  gelu,
  gelu_tanh,
  sqrt,
  reciprocal,
};

inline constexpr std::size_t double_double_functions = 14;

/// Below this gelu and gelu_tanh are computed so that they are precise next to themselves, by so many terms of a
/// continued fraction the first one (T-102).
inline constexpr double gelu_tail = -5.0;
inline constexpr int gelu_tail_terms = 64;

/// One build of the functions of double-double numbers for one instruction set; all builds give the same bits.
struct DoubleDoubleKernels {
  using Loop = void (*)(const double* x_high, const double* x_low, std::size_t count, double* y_high, double* y_low);
  const char* name;
  Loop loops[double_double_functions];
};

DRIFTBOUND_SIMD_BUILDS(DoubleDoubleKernels, double_double);

}  // namespace driftbound::num
