#include "implicit/slope_of_one.hpp"

#include <algorithm>
#include <optional>

#include "bounds/theorems/slope_ranges.hpp"
#include "driftbound/num/directed.hpp"
#include "num/enclosed.hpp"

namespace driftbound::implicit::inline theorems {
namespace {

/// Less than the distance of two zeros of a sine.
constexpr double half_a_period = 3.0;

Interval interval(const Enclosed& x) {
  return {sub_down(x.value, x.error), add_up(x.value, x.error)};
}

/// Values of a function at the ends, where it is monotone in between.
Interval between(const Interval& x, Enclosed (*f)(double)) {
  return hull(interval(f(x.lower())), interval(f(x.upper())));
}

/// The same for an even function that is monotone for x >= 0.
Interval between_sizes(const Interval& x, Enclosed (*f)(double)) {
  return between(Interval(x.mignitude(), x.magnitude().value()), f);
}

Interval cut_off(const Interval& x, double least, double most) {
  return {std::clamp(x.lower(), least, most), std::clamp(x.upper(), least, most)};
}

/// A sine, whichever, over at most half a period: f' says at the ends whether there is an extremum in between.
std::optional<Interval> sine_over(const Interval& x, Enclosed (*f)(double), Enclosed (*derivative)(double)) {
  if (!(sub_up(x.upper(), x.lower()) <= half_a_period)) return std::nullopt;
  const Interval first = interval(derivative(x.lower())), last = interval(derivative(x.upper()));
  if (first.contains(0.0) || last.contains(0.0)) return std::nullopt;
  const Interval ends = between(x, f);
  if (first.lower() > 0.0 && last.upper() < 0.0) return cut_off(hull(ends, 1.0), -1.0, 1.0);
  if (first.upper() < 0.0 && last.lower() > 0.0) return cut_off(hull(ends, -1.0), -1.0, 1.0);
  return cut_off(ends, -1.0, 1.0);
}

Enclosed minus_sine(double x) {
  const Enclosed sine = enclosed_sin(x);
  return {-sine.value, sine.error};
}

Interval one_less_square(const Interval& x) {
  return cut_off(Interval(1.0) - x * x, 0.0, 1.0);
}

/// Empty: nothing is known that is faster.
struct InDouble {
  const Interval& x;

  std::optional<Interval> operator()(const op::Tanh&) const { return one_less_square(between_sizes(x, enclosed_tanh)); }
  std::optional<Interval> operator()(const op::Sigmoid&) const {
    return Interval(0.25) * one_less_square(between_sizes(Interval(0.5) * x, enclosed_tanh));
  }
  std::optional<Interval> operator()(const op::Softplus&) const {
    return cut_off(between(x, enclosed_sigmoid), 0.0, 1.0);
  }
  std::optional<Interval> operator()(const op::Exp&) const { return between(x, enclosed_exp); }
  std::optional<Interval> operator()(const op::Sin&) const { return sine_over(x, enclosed_cos, minus_sine); }
  std::optional<Interval> operator()(const op::Cos&) const {
    const std::optional<Interval> sine = sine_over(x, enclosed_sin, enclosed_cos);
    return sine ? std::optional(-*sine) : std::nullopt;
  }
  std::optional<Interval> operator()(const auto&) const { return std::nullopt; }
};

}  // namespace

Interval slope_of_one(const Op& op, const Interval& x) {
  const std::optional<Interval> quick = x.is_finite() ? std::visit(InDouble{x}, op) : std::nullopt;
  return quick && quick->is_finite() ? *quick : bounds::slope_range(op, x);
}

}  // namespace driftbound::implicit::inline theorems
