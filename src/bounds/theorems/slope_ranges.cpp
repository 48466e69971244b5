#include "bounds/theorems/slope_ranges.hpp"

#include <cmath>
#include <string>

#include "driftbound/num/errors.hpp"
#include "model/variant.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

[[noreturn]] void refuse(const Op& op) {
  throw InvalidArgument("bounds: " + std::string(name_of(op)) + " has no slopes of its own");
}

Interval square(const Interval& x) {
  const Interval magnitude = abs(x);
  return magnitude * magnitude;
}

/// Slopes of a function with one kink: `below` to the left of it, `above` to the right.
Interval kinked(const Interval& x, double kink, double below, double above) {
  if (x.lower() >= kink) return above;
  if (x.upper() <= kink) return below;
  return hull(below, above);
}

/// Slopes of a function with jumps: 0 if it is constant, else the whole line.
Interval jumping(bool is_constant) {
  return is_constant ? Interval(0.0) : Interval::whole();
}

Interval positive_part(const Interval& x) {
  return max(x, Interval(0.0));
}
Interval negative_part(const Interval& x) {
  return min(x, Interval(0.0));
}

/// p x^(p-1); computed as p x^p / x if p - 1 is not exact in double or |p| >= 2^52.
Interval power_slope(const Interval& x, double p) {
  if (p == 0.0) return 0.0;
  if (p == 1.0) return 1.0;
  const bool lower_is_exact = p - 1.0 + 1.0 == p && std::abs(p) < 0x1p52;
  const Interval power = lower_is_exact ? pow(x, p - 1.0) : pow(x, p) / x;
  return Interval(p) * power;
}

Interval elu_slope(const Interval& x, double alpha) {
  const Interval left = Interval(alpha) * exp(negative_part(x));
  if (x.lower() >= 0.0) return 1.0;
  return x.upper() <= 0.0 ? left : hull(left, 1.0);
}

/// `slope` if x > 0 certainly, else the whole line.
Interval where_positive(const Interval& x, const Interval& slope) {
  return x.lower() > 0.0 ? slope : Interval::whole();
}

Interval clip_slope(const Interval& x, const op::Clip& clip) {
  if (!(clip.least < clip.most) || x.upper() <= clip.least || x.lower() >= clip.most) return 0.0;
  return x.lower() >= clip.least && x.upper() <= clip.most ? Interval(1.0) : Interval(0.0, 1.0);
}

struct OfOne {
  const Interval& x;

  Interval operator()(const op::Neg&) const { return -1.0; }
  Interval operator()(const op::Cast&) const { return 1.0; }
  Interval operator()(const op::Relu&) const { return kinked(x, 0.0, 0.0, 1.0); }
  Interval operator()(const op::LeakyRelu& leaky) const { return kinked(x, 0.0, leaky.alpha, 1.0); }
  Interval operator()(const op::Abs&) const { return kinked(x, 0.0, -1.0, 1.0); }
  Interval operator()(const op::Elu& elu) const { return elu_slope(x, elu.alpha); }
  Interval operator()(const op::Clip& clip) const { return clip_slope(x, clip); }
  Interval operator()(const op::ThresholdedRelu& relu) const {
    if (x.lower() > relu.alpha) return 1.0;
    if (relu.alpha == 0.0) return kinked(x, 0.0, 0.0, 1.0);
    return jumping(x.upper() <= relu.alpha);
  }
  Interval operator()(const op::Tanh&) const { return positive_part(Interval(1.0) - square(tanh(x))); }
  Interval operator()(const op::Sigmoid&) const {
    return Interval(0.25) * positive_part(Interval(1.0) - square(tanh(Interval(0.5) * x)));
  }
  Interval operator()(const op::Softplus&) const {
    return positive_part(Interval(0.5) + Interval(0.5) * tanh(Interval(0.5) * x));
  }
  Interval operator()(const op::Sin&) const { return cos(x); }
  Interval operator()(const op::Cos&) const { return -sin(x); }
  Interval operator()(const op::Exp&) const { return exp(x); }
  Interval operator()(const op::Erf&) const {
    const Interval two_over_root_pi(0x1.20dd750429b6dp+0, 0x1.20dd750429b6ep+0);
    return two_over_root_pi * exp(-square(x));
  }
  Interval operator()(const op::Sqrt&) const { return where_positive(x, Interval(0.5) / sqrt(x)); }
  Interval operator()(const op::Reciprocal&) const { return Interval(-1.0) / square(x); }
  Interval operator()(const op::Log&) const { return where_positive(x, Interval(1.0) / x); }
  Interval operator()(const op::Tan&) const { return Interval(1.0) + square(tan(x)); }
  Interval operator()(const op::Atan&) const { return Interval(1.0) / (Interval(1.0) + square(x)); }
  Interval operator()(const op::Sinh&) const { return cosh(x); }
  Interval operator()(const op::Cosh&) const { return sinh(x); }
  Interval operator()(const op::Pow& power) const { return power_slope(x, power.exponent); }
  Interval operator()(const op::Floor&) const { return jumping(floor(x).width() == Magnitude()); }
  Interval operator()(const op::Ceil&) const { return jumping(ceil(x).width() == Magnitude()); }
  Interval operator()(const op::Sign&) const { return jumping(sign(x).width() == Magnitude()); }
  Interval operator()(const auto& other) const { refuse(other); }
};

using Pair = std::array<Interval, 2>;

/// Slopes of max(a, b): (1, 0) or (0, 1) if the ranges decide, else both [0, 1]. larger(b, a) gives those of min(a, b).
Pair larger(const Interval& a, const Interval& b) {
  if (a.lower() >= b.upper()) return {1.0, 0.0};
  if (a.upper() <= b.lower()) return {0.0, 1.0};
  return {Interval(0.0, 1.0), Interval(0.0, 1.0)};
}

Pair compared(bool is_decided) {
  return {jumping(is_decided), jumping(is_decided)};
}

struct OfTwo {
  const Interval &a, &b;

  Pair operator()(const op::Add&) const { return {1.0, 1.0}; }
  Pair operator()(const op::Sub&) const { return {1.0, -1.0}; }
  Pair operator()(const op::Mul&) const { return {b, a}; }
  Pair operator()(const op::Div&) const { return {Interval(1.0) / b, -a / square(b)}; }
  Pair operator()(const op::Max&) const { return larger(a, b); }
  Pair operator()(const op::Min&) const { return larger(b, a); }
  Pair operator()(const op::PRelu&) const {
    if (a.lower() >= 0.0) return {1.0, 0.0};
    return {a.upper() <= 0.0 ? b : hull(b, 1.0), negative_part(a)};
  }
  Pair operator()(const op::Greater&) const { return compared(a.lower() > b.upper() || a.upper() <= b.lower()); }
  Pair operator()(const op::GreaterOrEqual&) const { return compared(a.lower() >= b.upper() || a.upper() < b.lower()); }
  Pair operator()(const op::Equal&) const { return compared(a.lower() > b.upper() || a.upper() < b.lower()); }
  Pair operator()(const auto& other) const { refuse(other); }
};

}  // namespace

Interval slope_range(const Op& op, const Interval& x) {
  return std::visit(OfOne{x}, op);
}

std::array<Interval, 2> slope_ranges(const Op& op, const Interval& a, const Interval& b) {
  return std::visit(OfTwo{a, b}, op);
}

}  // namespace driftbound::bounds::inline theorems
