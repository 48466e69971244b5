#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::bounds {

/// Loops over elements in double, compiled once per instruction set. Every build computes every element by the same
/// operations, so that all give the same bits.
struct ElementKernels {
  const char* name;

  /// y = f(x) as enclosed_f (num/enclosed.hpp) gives its value. False where one x is not covered: y is not to be used.
  /// Source:    docs/theory.md T-80
  using Function = bool (*)(const double* x, double* y, std::size_t n);
  Function exp, tanh, sigmoid, softplus, sin, cos;

  /// The same with f' and f''; without them where `slopes` is null. Covers every finite x.
  /// Source:    docs/theory.md T-124
  using Bends = bool (*)(const double* x, double* y, double* slopes, double* curvatures, std::size_t n);
  Bends gelu, gelu_tanh;
  /// y = max(x, 0); false where an x is not finite.
  Function relu;

  /// y = a op b, each rounded once; false where a result is not finite. y may be a or b.
  using Pair = bool (*)(const double* a, const double* b, double* y, std::size_t n);
  Pair add, sub, mul;

  /// y = a + b for a, b >= 0, rounded up, as Magnitudes are added; infinite where that is not a number. y may be a or b.
  /// Source:    docs/theory.md T-03
  void (*add_up)(const double* a, const double* b, double* y, std::size_t n);

  /// Upper bounds of |computed - shadow| + radius; infinite where that is not a number. Returns the largest of
  /// |computed - shadow| and of u |computed|; infinite where one is not a number. `bound` is none of the operands.
  /// Source:    docs/theory.md T-82
  double (*deviation)(const double* computed, const double* shadow, double radius, double u, double* bound,
                      std::size_t n);
};

DRIFTBOUND_SIMD_BUILDS(ElementKernels, elements);

}  // namespace driftbound::bounds
