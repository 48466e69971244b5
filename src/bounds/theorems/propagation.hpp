#pragma once

#include <span>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

// Propagation of radii through the functions of nodes: bounds of |f(t) - f(x)| for all t within e of x.

/// One element x of the operand of a function f of one variable, with its radius e.
struct Point {
  double x = 0.0;
  Magnitude e;
  double y = 0.0;      ///< stored value of f(x); slopes are computed from it
  Magnitude y_error;   ///< bound of |y - f(x)|
  double alpha = 0.0;  ///< attribute of LeakyRelu and Elu, exponent of a power
};

using UnaryPropagation = Magnitude (*)(const Point&);
using BinaryPropagation = Magnitude (*)(double, Magnitude, double, Magnitude);
using GroupPropagation = Magnitude (*)(std::span<const double>, std::span<const double>);

inline namespace theorems {

// Upper bounds of |f(t) - f(x)| over |t - x| <= e; infinite if f may be undefined there.
// Source: docs/theory.md T-41 (piecewise linear), T-42 (smooth, bounded), T-43 (exp, sqrt)
Magnitude propagate_identity(const Point& p);    // T-41
Magnitude propagate_relu(const Point& p);        // T-41
Magnitude propagate_leaky_relu(const Point& p);  // T-41
Magnitude propagate_elu(const Point& p);         // T-43
Magnitude propagate_tanh(const Point& p);        // T-42
Magnitude propagate_sigmoid(const Point& p);     // T-42
Magnitude propagate_softplus(const Point& p);    // T-42
Magnitude propagate_sin_or_cos(const Point& p);  // T-42
Magnitude propagate_erf(const Point& p);         // T-42
Magnitude propagate_exp(const Point& p);         // T-43
Magnitude propagate_sqrt(const Point& p);        // T-43
// Source: docs/theory.md T-46 (logarithms), T-47 (tan, atan), T-48 (sinh, cosh), T-49 (powers), T-44 (reciprocal)
Magnitude propagate_log(const Point& p);         // T-46
Magnitude propagate_tan(const Point& p);         // T-47
Magnitude propagate_atan(const Point& p);        // T-47
Magnitude propagate_sinh(const Point& p);        // T-48
Magnitude propagate_cosh(const Point& p);        // T-48
Magnitude propagate_power(const Point& p);       // T-49
Magnitude propagate_reciprocal(const Point& p);  // T-44
// Source: docs/theory.md T-50. Functions with jumps: 0 if no jump lies within e of x, else infinite.
Magnitude propagate_abs(const Point& p);    // T-50
Magnitude propagate_floor(const Point& p);  // T-50
Magnitude propagate_ceil(const Point& p);   // T-50
Magnitude propagate_round(const Point& p);  // T-50
Magnitude propagate_sign(const Point& p);   // T-50

/// f(x) = x for x > alpha, else 0: by the range over [x - e, x + e] in interval arithmetic.
/// Source: docs/theory.md T-52
Magnitude propagate_thresholded_relu(const Point& p);  // T-52

// Upper bounds of |f(s, t) - f(a, b)| over |s - a| <= ea, |t - b| <= eb. Source: docs/theory.md T-44
Magnitude propagate_sum(double a, Magnitude ea, double b, Magnitude eb);       // T-44
Magnitude propagate_product(double a, Magnitude ea, double b, Magnitude eb);   // T-44
Magnitude propagate_quotient(double a, Magnitude ea, double b, Magnitude eb);  // T-44
/// propagate_sqrt() and propagate_quotient() where the argument, or the divisor, is known to be at least `least`: finite
/// where radii are larger than that number.
/// Domain:    least >= 0; finite where x >= 0 and e is finite, or b > 0, least > 0 and radii are finite
/// Source:    docs/theory.md T-43, T-44
Magnitude propagate_sqrt_above(double x, Magnitude e, double least);
Magnitude propagate_quotient_above(double a, Magnitude ea, double b, Magnitude eb, double least);
/// Upper bound of |s q - t q - (a r - b r)| over |s - a| <= ea, |t - b| <= eb, |q - r| <= er: products with a common
/// factor.
/// Source:    docs/theory.md T-44
Magnitude propagate_common_factor(double a, Magnitude ea, double b, Magnitude eb, double r, Magnitude er);
// Source: docs/theory.md T-50
Magnitude propagate_max(double a, Magnitude ea, double b, Magnitude eb);  // T-50
Magnitude propagate_min(double a, Magnitude ea, double b, Magnitude eb);  // T-50

// Comparisons: 0 if the operands' ranges decide the comparison, else infinite.
Magnitude propagate_greater(double a, Magnitude ea, double b, Magnitude eb);           // T-50
Magnitude propagate_greater_or_equal(double a, Magnitude ea, double b, Magnitude eb);  // T-50
Magnitude propagate_equal(double a, Magnitude ea, double b, Magnitude eb);             // T-50

/// f(c, a, b) = a for c > 1/2, else b. `taken` with the radius e_taken is the operand that c selects, `other` with
/// e_other the other one. decides: every real within the radius of c selects the same operand.
/// Source:    docs/theory.md T-54
Magnitude propagate_choice(bool decides, double taken, Magnitude e_taken, double other, Magnitude e_other);  // T-54
/// Whether all reals within e of c lie on the same side of 1/2 as c.
/// Source:    docs/theory.md T-54
bool decides_choice(double c, Magnitude e);  // T-54

/// f(x, slope) = x for x >= 0, slope x below; |s - x| <= ex, |t - slope| <= eb.
/// Source:    docs/theory.md T-52
Magnitude propagate_prelu(double x, Magnitude ex, double slope, Magnitude eb);  // T-52

// Reductions of x whose elements change by at most e. Shapes: both [n]. Source: docs/theory.md T-53
Magnitude propagate_reduce_sum(std::span<const double> x, std::span<const double> e);  // T-53
Magnitude propagate_reduce_max(std::span<const double> x, std::span<const double> e);  // T-53
Magnitude propagate_reduce_min(std::span<const double> x, std::span<const double> e);  // T-53

/// Row of a softmax: the exact one is within p_error of the stored p, e are the radii of its arguments. Writes the
/// bounds to `result`.
/// Shapes:    all [n]
/// Source:    docs/theory.md T-45
void propagate_softmax(std::span<const double> p, std::span<const double> p_error, std::span<const double> e,
                       std::span<double> result);  // T-45

/// |w|, the factor of an operand's radius in a matrix product.
/// Source:    docs/theory.md T-40
double product_weight(double w);  // T-40

/// Adds a node's local errors to the errors propagated from its inputs, rounded up.
/// Shapes:    both [n]
/// Source:    docs/theory.md T-40
void add_local_errors(std::span<const double> local, std::span<double> propagated);  // T-40

}  // namespace theorems

}  // namespace driftbound::bounds
