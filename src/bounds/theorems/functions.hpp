#pragma once

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

// Error bounds of elementary functions, from the accuracy that a library declares.

/// Accuracy of a function: |computed - f| <= units (u |f| + eta) + absolute_units u. A single number converts to
/// `units`.
/// Source:    docs/theory.md T-20
struct FunctionError {
  FunctionError(double relative, double absolute = 0.0) : units(relative), absolute_units(absolute) {}

  /// The part of the error bound that does not depend on |f|.
  Magnitude absolute(const Machine& machine) const {
    return Magnitude(units) * Magnitude(machine.eta) + Magnitude(absolute_units) * Magnitude(machine.u);
  }

  double units;
  double absolute_units;
};

inline namespace theorems {

/// Error that a function's accuracy and flushing allow for |f| <= `largest`.
/// Source:    docs/theory.md T-16
Magnitude allowed_error(Magnitude largest, FunctionError accuracy, const Machine& machine);

/// |y - f| for a stored y; infinite if y is the largest number of a format in which results may saturate.
/// Source:    docs/theory.md T-16
Magnitude function_error(double y, FunctionError accuracy, const Machine& machine);

/// function_error() of a sigmoid that may be computed as 1 / (1 + exp(-x)): if exp(-x) overflows, the result is 0 or
/// underflows, and its accuracy does not hold.
/// Source:    docs/theory.md T-16
Magnitude foreign_sigmoid_error(double x, double y, FunctionError accuracy, const Machine& machine);

/// Upper bound of |y - f(x)| for the LeakyRelu f computed as y = fl(fl(alpha) x) for x < 0, y = x otherwise.
/// Source:    docs/theory.md T-18
Magnitude leaky_relu_error(double x, double y, double alpha, const Machine& machine);

/// Upper bound of |y - f(x)| for the Elu f computed as y = fl(fl(alpha) expm1(x)) for x < 0, y = x otherwise;
/// `accuracy` is that of expm1.
/// Source:    docs/theory.md T-18
Magnitude elu_error(double x, double y, double alpha, FunctionError accuracy, const Machine& machine);

/// Upper bound of |fl(fl(e^x) - 1) - (e^x - 1)| for x < 0 and |e^x - 1| <= `largest`; `accuracy` is that of exp.
/// Source:    docs/theory.md T-18
Magnitude exp_less_one_error(Magnitude largest, FunctionError accuracy, const Machine& machine);

/// elu_error() for an Elu that may be computed by expm1(x) or by exp(x) - 1; `expm1` and `exp` are their accuracies.
/// Source:    docs/theory.md T-18
Magnitude foreign_elu_error(double x, double y, double alpha, FunctionError expm1, FunctionError exp,
                            const Machine& machine);

/// Whether e^x is certainly below the largest number of the accumulator, so that the accuracy of exp holds.
/// Source:    docs/theory.md T-16
bool exp_is_covered(double x, const Machine& machine);

/// Whether |x|^exponent is certainly below the largest number of the accumulator, as T-20 requires.
/// Source:    docs/theory.md T-16
bool power_is_covered(double x, double exponent, const Machine& machine);

}  // namespace theorems

}  // namespace driftbound::bounds
