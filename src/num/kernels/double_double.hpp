#pragma once

#include <cstddef>

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

/// One build of the functions of double-double numbers for one instruction set; all builds give the same bits.
struct DoubleDoubleKernels {
  using Loop = void (*)(const double* x_high, const double* x_low, std::size_t count, double* y_high, double* y_low);
  const char* name;
  Loop loops[double_double_functions];
};

extern const DoubleDoubleKernels double_double_baseline;
extern const DoubleDoubleKernels double_double_avx2;    // x86-64 builds only
extern const DoubleDoubleKernels double_double_avx512;  // x86-64 builds only

}  // namespace driftbound::num
