#pragma once

#include <cstddef>
#include <span>

#include "bounds/propagate.hpp"

namespace driftbound::bounds {

/// f near a point: |f(x + t) - f(x) - slope t| <= remainder and |f(x + t) - f(x)| <= lipschitz |t| for |t| <= e.
struct Linear {
  double slope = 0.0;
  Magnitude remainder;
  Magnitude lipschitz;
};

// Each expands f at the point. The slope is finite and does not depend on e; where f may be undefined within e of x,
// remainder and Lipschitz number are infinite; where e = 0, the remainder is 0.
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
Linear linear_sign(const Point& p);
Linear linear_power(const Point& p);
Linear linear_thresholded_relu(const Point& p);
Linear linear_clip(const Point& p, double least, double most);

/// f near a pair: |f(a + s, b + t) - f(a, b) - slope_a s - slope_b t| <= remainder for |s| <= ea, |t| <= eb.
struct LinearPair {
  double slope_a = 0.0;
  double slope_b = 0.0;
  Magnitude remainder;
};

// Slopes are finite and do not depend on the radii; the remainder is infinite where f may be undefined within reach.
// Guarantee: proven
// Source:    docs/theory.md T-66
LinearPair linear_product(double a, Magnitude ea, double b, Magnitude eb);
LinearPair linear_quotient(double a, Magnitude ea, double b, Magnitude eb);
LinearPair linear_max(double a, Magnitude ea, double b, Magnitude eb);
LinearPair linear_min(double a, Magnitude ea, double b, Magnitude eb);
/// x for x >= 0, slope x below.
LinearPair linear_prelu(double x, Magnitude ex, double slope, Magnitude eb);

/// A maximum or minimum near x: it moves as its element `chosen`, but for the remainder.
struct LinearExtremum {
  std::size_t chosen = 0;
  Magnitude remainder;
};

// Shapes:    both [n], n >= 1
// Guarantee: proven
// Source:    docs/theory.md T-66
LinearExtremum linear_reduce_max(std::span<const double> x, std::span<const double> e);
LinearExtremum linear_reduce_min(std::span<const double> x, std::span<const double> e);

/// Row of a softmax against diag(p) - p p^T at the stored p: p with its errors, e radii of its arguments.
/// Shapes:    all [n]
/// Guarantee: proven
/// Source:    docs/theory.md T-66
void linear_softmax(std::span<const double> p, std::span<const double> p_error, std::span<const double> e,
                    std::span<double> remainder);

/// The part of Rules (rules.hpp) that linearise() rests on.
struct LinearRules {
  using Unary = Linear (*)(const Point&);
  Unary relu = linear_relu;
  Unary leaky_relu = linear_leaky_relu;
  Unary elu = linear_elu;
  Unary tanh = linear_tanh;
  Unary sigmoid = linear_sigmoid;
  Unary softplus = linear_softplus;
  Unary sin = linear_sin;
  Unary cos = linear_cos;
  Unary exp = linear_exp;
  Unary erf = linear_erf;
  Unary sqrt = linear_sqrt;
  Unary absolute = linear_abs;
  Unary reciprocal = linear_reciprocal;
  Unary log = linear_log;
  Unary tan = linear_tan;
  Unary atan = linear_atan;
  Unary sinh = linear_sinh;
  Unary cosh = linear_cosh;
  Unary floor = linear_floor;
  Unary ceil = linear_ceil;
  Unary sign = linear_sign;
  Unary power = linear_power;
  Unary thresholded_relu = linear_thresholded_relu;
  decltype(&linear_clip) clip = linear_clip;
  using Binary = LinearPair (*)(double, Magnitude, double, Magnitude);
  Binary product = linear_product;
  Binary quotient = linear_quotient;
  Binary maximum = linear_max;
  Binary minimum = linear_min;
  Binary prelu = linear_prelu;
  using Group = LinearExtremum (*)(std::span<const double>, std::span<const double>);
  Group reduce_max = linear_reduce_max;
  Group reduce_min = linear_reduce_min;
  decltype(&linear_softmax) softmax = linear_softmax;
};

}  // namespace driftbound::bounds
