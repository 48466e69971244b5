#pragma once

#include "driftbound/model/ops.hpp"
#include "num/double_double.hpp"
#include "reference/pair_tensor.hpp"

namespace driftbound {

/// A function of one element with bounds in double-double (T-90 to T-94).
struct PairFunction {
  num::DoubleDoubleFunction function;
  /// How much f changes within `radius` of x_hi + x_lo at most, for finite radii below largest_radius; y is f there.
  double (*change)(double x, double y, double radius);
  double lipschitz;  ///< of f everywhere; infinite where there is none
};

/// Elements with larger radii, and such as no bound is promised for, are left to `op` on balls.
inline constexpr double largest_radius = 0x1p-10;

/// Null for ops without.
const PairFunction* pair_function(const Op& op);

/// y = f(x), element by element; `op` names the same function.
/// Guarantee: every real in an operand has its exact result in the result
/// Source:    docs/theory.md T-87, T-89
void evaluate(const PairFunction& function, const Op& op, const PairTensor& x, PairTensor& y);

}  // namespace driftbound
