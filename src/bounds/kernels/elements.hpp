#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::bounds {

/// Elementwise functions and operations of arrays of n doubles, compiled once per instruction set. Every build applies
/// the same operations to every element, so all builds give the same bits.
struct ElementKernels {
  const char* name;

  /// y = f(x) with the bits that enclosed_f (num/enclosed.hpp) gives. Returns false if an x is not covered; y must not
  /// be used then.
  /// Source:    docs/theory.md T-80
  using Function = bool (*)(const double* x, double* y, std::size_t n);
  Function exp, tanh, sigmoid, softplus, sin, cos;

  /// y = f(x), slopes = f'(x) and curvatures = f''(x); the derivatives are omitted if `slopes` is null. Returns false
  /// if an x is not finite.
  /// Source:    docs/theory.md T-88, T-124
  using Bends = bool (*)(const double* x, double* y, double* slopes, double* curvatures, std::size_t n);
  Bends gelu, gelu_tanh, erf;
  /// y = max(x, 0). Returns false if an x is not finite.
  Function relu;

  /// y = a op b, each rounded once. Returns false if a result is not finite. y may be a or b.
  using Pair = bool (*)(const double* a, const double* b, double* y, std::size_t n);
  Pair add, sub, mul;

  /// y = a + b for a, b >= 0, rounded up as the addition of Magnitudes is; infinite if the sum is NaN. y may be a or b.
  /// Source:    docs/theory.md T-03
  void (*add_up)(const double* a, const double* b, double* y, std::size_t n);

  /// Writes upper bounds of |computed - shadow| + radius, infinite where that is NaN. Returns the largest of all
  /// |computed - shadow| and u |computed|, infinite if one of the differences is NaN. `bound` must not alias an
  /// operand.
  /// Source:    docs/theory.md T-82
  double (*deviation)(const double* computed, const double* shadow, double radius, double u, double* bound,
                      std::size_t n);
};

DRIFTBOUND_SIMD_BUILDS(ElementKernels, elements);

}  // namespace driftbound::bounds
