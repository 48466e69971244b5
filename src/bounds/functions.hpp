#pragma once

#include "bounds/machine.hpp"

namespace driftbound::bounds {

/// What units (u |f| + eta) allows, and flushing, where |f| <= `largest`.
/// Source:    docs/theory.md T-16
Magnitude allowed_error(Magnitude largest, double units, const Machine& machine);

/// |y - f| for a stored y whose function keeps |computed - f| <= units (u |f| + eta).
/// Source:    docs/theory.md T-16
Magnitude function_error(double y, double units, const Machine& machine);

/// The same for a sigmoid that may be computed as 1 / (1 + exp(-x)): where exp(-x) overflows the result is 0 or
/// underflows, whatever its accuracy is elsewhere.
/// Source:    docs/theory.md T-16
Magnitude foreign_sigmoid_error(double x, double y, double units, const Machine& machine);

/// y = fl(fl(alpha) x) for x < 0, x itself otherwise.
/// Source:    docs/theory.md T-18
Magnitude leaky_relu_error(double x, double y, double alpha, const Machine& machine);

/// y = fl(fl(alpha) expm1(x)) for x < 0, x itself otherwise; `units` are those of expm1.
/// Source:    docs/theory.md T-18
Magnitude elu_error(double x, double y, double alpha, double units, const Machine& machine);

/// Whether e^x is below the largest number of the accumulator, so that the accuracy of exp speaks about it.
/// Source:    docs/theory.md T-16
bool exp_is_covered(double x, const Machine& machine);

}  // namespace driftbound::bounds
