#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "num/kernels/double_double.hpp"

namespace driftbound::num {

/// The builds of the double-double functions that this processor can run, the slowest first. All give the same bits.
std::vector<const DoubleDoubleKernels*> usable_double_double_kernels();

/// The last of them.
const DoubleDoubleKernels& fastest_double_double_kernels();

/// |y - f(x)| <= relative |f(x)| + of_argument |x| + absolute, in the tail of gelu and gelu_tanh (x_high < gelu_tail)
/// in_tail |f(x)|; or y = 0 and |f(x)| <= of_nothing.
struct DoubleDoubleError {
  double relative;
  double of_argument;  ///< gelu, gelu_tanh, where 1 + erf and 1 + tanh cancel for x < 0; |x| <= 2 |f| for x >= 0
  double in_tail;      ///< of them
  double absolute;     ///< sin, cos: near their zeros, 0 apart
  double of_nothing;   ///< exp, sigmoid, softplus, which are 0 for x < -620; gelu, gelu_tanh
};

/// What the theorems promise of every y = f(x) that is not NaN; relative and of_argument are at most 2^-100, in_tail
/// 2^-91.
/// Guarantee: proven
/// Source:    docs/theory.md T-90 to T-94, T-102
DoubleDoubleError error_of(DoubleDoubleFunction f);

/// An upper bound of |y_high + y_low - f(x_high + x_low)| from the high parts alone: infinite where y is NaN.
inline double error_bound(DoubleDoubleError error, double x_high, double y_high) {
  const double of_nothing = y_high == 0.0 ? error.of_nothing : 0.0, least = error.absolute + of_nothing;
  const bool in_tail = error.in_tail > 0.0 && x_high < gelu_tail;
  const double of_argument = in_tail ? error.in_tail * std::abs(y_high) : error.of_argument * std::abs(x_high);
  const double bound = error.relative * std::abs(y_high) + of_argument + least;
  return bound >= 0.0 ? bound * (1.0 + 0x1p-40) : HUGE_VAL;
}

/// y_high + y_low = f(x_high + x_low) within error_of(f), element by element, |y_low| <= 2^-53 |y_high|. y may be x.
/// Domain:    |x_low| <= 2^-53 |x_high|; x = 0 or |x| >= 2^-900; and
///              exp, expm1            x_high <= 709
///              log, sqrt             0 < x_high <= 2^1000 (sqrt: 0 too); log: x_low = 0 or |x_low| >= 2^-900 if x_high = 1
///              log1p                 -1 < x_high <= 2^1000
///              tanh, erf, sigmoid    any finite number
///              softplus              x_high <= 2^1000
///              sin, cos              |x_high| <= 2^20
///              gelu, gelu_tanh       |x_high| <= 2^1000
///              reciprocal            0 < |x_high| <= 2^900
///            Outside of it both parts of y are NaN: nothing is said about that element.
///            gelu is x (1 + erf(x / sqrt 2)) / 2, gelu_tanh x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2,
///            softplus log(1 + e^x)
/// Guarantee: proven
/// Throws:    InvalidArgument for arrays of different sizes; UnsoundEnvironment
/// Source:    docs/theory.md T-90 to T-94
void evaluate(DoubleDoubleFunction f, std::span<const double> x_high, std::span<const double> x_low,
              std::span<double> y_high, std::span<double> y_low,
              const DoubleDoubleKernels& kernels = fastest_double_double_kernels());

}  // namespace driftbound::num
