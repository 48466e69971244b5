#pragma once

#include <cstddef>
#include <span>

#include "bounds/theorems/propagation.hpp"

namespace driftbound::bounds {

// First-order expansions of functions with bounds of their second-order remainders (T-65, T-66).

/// f near a point: |f(x + t) - f(x) - slope t| <= remainder and |f(x + t) - f(x)| <= lipschitz |t| for |t| <= e.
struct Linear {
  double slope = 0.0;
  Magnitude remainder;
  Magnitude lipschitz;
};

/// f near a pair: |f(a + s, b + t) - f(a, b) - slope_a s - slope_b t| <= remainder for |s| <= ea, |t| <= eb.
struct LinearPair {
  double slope_a = 0.0;
  double slope_b = 0.0;
  Magnitude remainder;
};

/// A maximum or minimum f near x: |f(x + t) - f(x) - t_chosen| <= remainder for |t_j| <= e_j.
struct LinearExtremum {
  std::size_t chosen = 0;
  Magnitude remainder;
};

using UnaryExpansion = Linear (*)(const Point&);
using BinaryExpansion = LinearPair (*)(double, Magnitude, double, Magnitude);
using GroupExpansion = LinearExtremum (*)(std::span<const double>, std::span<const double>);

inline namespace theorems {

// Expansions of functions of one element. The slope is finite and does not depend on e. If f may be undefined within e
// of x, remainder and Lipschitz constant are infinite; if e = 0, the remainder is 0.
// Guarantee: proven
// Source:    docs/theory.md T-65
Linear linear_relu(const Point& p);
Linear linear_leaky_relu(const Point& p);
Linear linear_elu(const Point& p);
Linear linear_tanh(const Point& p);
Linear linear_sigmoid(const Point& p);
Linear linear_softplus(const Point& p);
Linear linear_sin(const Point& p);
Linear linear_cos(const Point& p);
Linear linear_exp(const Point& p);
Linear linear_erf(const Point& p);
Linear linear_sqrt(const Point& p);
Linear linear_abs(const Point& p);
Linear linear_reciprocal(const Point& p);
Linear linear_log(const Point& p);
Linear linear_tan(const Point& p);
Linear linear_atan(const Point& p);
Linear linear_sinh(const Point& p);
Linear linear_cosh(const Point& p);
Linear linear_floor(const Point& p);
Linear linear_ceil(const Point& p);
Linear linear_round(const Point& p);
Linear linear_sign(const Point& p);
Linear linear_power(const Point& p);
Linear linear_thresholded_relu(const Point& p);
Linear linear_clip(const Point& p, double least, double most);

// Expansions of functions of two elements. Slopes are finite and do not depend on the radii. The remainder is infinite
// if f may be undefined within the radii.
// Guarantee: proven
// Source:    docs/theory.md T-66
LinearPair linear_product(double a, Magnitude ea, double b, Magnitude eb);
LinearPair linear_quotient(double a, Magnitude ea, double b, Magnitude eb);
LinearPair linear_max(double a, Magnitude ea, double b, Magnitude eb);
LinearPair linear_min(double a, Magnitude ea, double b, Magnitude eb);
/// f(x, slope) = x for x >= 0, slope x below.
LinearPair linear_prelu(double x, Magnitude ex, double slope, Magnitude eb);

// Shapes:    both [n], n >= 1
// Guarantee: proven
// Source:    docs/theory.md T-66
LinearExtremum linear_reduce_max(std::span<const double> x, std::span<const double> e);
LinearExtremum linear_reduce_min(std::span<const double> x, std::span<const double> e);

/// Remainders of a row of a softmax with the Jacobian diag(p) - p p^T at the stored p. The exact softmax is within
/// p_error of p; e are the radii of the arguments.
/// Shapes:    all [n]
/// Guarantee: proven
/// Source:    docs/theory.md T-66
void linear_softmax(std::span<const double> p, std::span<const double> p_error, std::span<const double> e,
                    std::span<double> remainder);

}  // namespace theorems

}  // namespace driftbound::bounds
