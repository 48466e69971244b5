#pragma once

#include "reference/ball_tensor.hpp"

namespace driftbound {

/// Functions of balls: result y, operands x. Each encloses: for every real in the operand its exact
/// function value lies in the result. A void operand gives a void result. The result must be another
/// object than the operands; `scratch` is one ball for intermediate values, of the precision of y.
/// Source:    docs/theory.md T-31 to T-35
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
void rectified(MpBall& y, const MpBall& x);
void leaky_rectified(MpBall& y, const MpBall& x, const MpBall& alpha);
void exponential_linear(MpBall& y, const MpBall& x, const MpBall& alpha, MpBall& scratch);

/// Replaces a ball that is wider than center +- half_width, in which the value is known to lie.
void intersect_range(MpBall& ball, double center, double half_width);

}  // namespace driftbound
