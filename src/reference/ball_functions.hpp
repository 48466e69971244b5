#pragma once

#include "reference/ball_tensor.hpp"

namespace driftbound {

/// Functions of balls: result y, operands x. Each encloses: for every real in the operand its exact
/// function value lies in the result. A void operand gives a void result. The result must be another
/// object than the operands; `scratch` is one ball for intermediate values, of the precision of y.
/// Source:    docs/theory.md T-31 to T-35, T-37, T-38
void add(MpBall& y, const MpBall& a, const MpBall& b);
void subtract(MpBall& y, const MpBall& a, const MpBall& b);
void multiply(MpBall& y, const MpBall& a, const MpBall& b);
void divide(MpBall& y, const MpBall& a, const MpBall& b);
void negate(MpBall& y, const MpBall& x);
void square_root(MpBall& y, const MpBall& x);
void exponential(MpBall& y, const MpBall& x);
void sine(MpBall& y, const MpBall& x);
void cosine(MpBall& y, const MpBall& x);
void hyperbolic_tangent(MpBall& y, const MpBall& x);
void error_function(MpBall& y, const MpBall& x);
void logistic(MpBall& y, const MpBall& x, MpBall& scratch);
void soft_plus(MpBall& y, const MpBall& x, MpBall& scratch);
/// x (1 + erf(x / sqrt 2)) / 2, as precise relative to itself for x << 0 as anywhere.
void gaussian_linear(MpBall& y, const MpBall& x, MpBall& scratch);
void rectified(MpBall& y, const MpBall& x);
void leaky_rectified(MpBall& y, const MpBall& x, const MpBall& alpha);
void exponential_linear(MpBall& y, const MpBall& x, const MpBall& alpha, MpBall& scratch);
void reciprocal(MpBall& y, const MpBall& x);
void logarithm(MpBall& y, const MpBall& x);
void tangent(MpBall& y, const MpBall& x);
void arctangent(MpBall& y, const MpBall& x);
void hyperbolic_sine(MpBall& y, const MpBall& x);
void hyperbolic_cosine(MpBall& y, const MpBall& x);
/// x^p for a finite p, with x^0 = 1 everywhere.
void power(MpBall& y, const MpBall& x, double p);
void absolute(MpBall& y, const MpBall& x);
void maximum(MpBall& y, const MpBall& a, const MpBall& b);
void minimum(MpBall& y, const MpBall& a, const MpBall& b);

// Functions with jumps: exact where the operand holds no jump, unknown otherwise.
void floor_function(MpBall& y, const MpBall& x, MpBall& scratch);
void ceiling_function(MpBall& y, const MpBall& x, MpBall& scratch);
void rounding_function(MpBall& y, const MpBall& x, MpBall& scratch);
void sign_function(MpBall& y, const MpBall& x);
/// The truth value of a comparison with 0, of a number that may be void: whether x > 0, x >= 0, x = 0.
void is_positive(MpBall& y, const MpBall& x);
void is_not_negative(MpBall& y, const MpBall& x);
void is_zero(MpBall& y, const MpBall& x);

/// a or b: every number between the ends of two balls.
void either_of(MpBall& y, const MpBall& a, const MpBall& b);

/// Replaces a ball that is wider than center +- half_width, in which the value is known to lie.
void intersect_range(MpBall& ball, double center, double half_width);

}  // namespace driftbound
