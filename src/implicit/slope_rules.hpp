#pragma once

#include <cstdint>
#include <span>

#include "bounds/adjoint/slope_range.hpp"
#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"
#include "implicit/slope_of_one.hpp"

namespace driftbound::implicit {

/// How far a value is from what is stored of it at the middle, anywhere on a piece: e + |S| r.
/// Source:    docs/theory.md T-121
Magnitude reach(double error, double slope_middle, double slope_radius, double half_width);

/// Radius of a slope that a product gives: the computed sum of (radius + gamma |middle|) |weight|, whose products that
/// may have underflowed are counted.
/// Source:    docs/theory.md T-121
double product_radius(double computed, std::int64_t terms, bool is_zero);

/// What a middle of a product of k terms is off by, over the sum of magnitudes.
/// Source:    docs/theory.md T-04
double product_gamma(std::int64_t terms);

/// Radius of the sum of two slopes whose middles add up to `middle`, rounded.
/// Source:    docs/theory.md T-121
double sum_radius(double a, double b, double middle);

/// Slope of the larger of two numbers: the hull where both may be that.
/// Source:    docs/theory.md T-121
Interval slope_of_larger(const Interval& a, const Interval& b, const Interval& slope_a, const Interval& slope_b);

/// Slopes of a softmax whose arguments lie in x and have the slopes s.
/// Shapes:    all [n]
/// Source:    docs/theory.md T-121
void slopes_of_softmax(std::span<const Interval> x, std::span<const Interval> s, std::span<Interval> result);

/// m - g(m) / S: holds the zero of g, if any.
/// Source:    docs/theory.md T-122
Interval newton(double m, const Interval& value, const Interval& slope);

/// What the enclosures of a piece rest on, as values: tests replace one at a time and must notice.
struct SlopeRules {
  decltype(&implicit::reach) reach = implicit::reach;
  decltype(&implicit::product_radius) product_radius = implicit::product_radius;
  decltype(&implicit::product_gamma) product_gamma = implicit::product_gamma;
  decltype(&implicit::sum_radius) sum_radius = implicit::sum_radius;
  decltype(&implicit::slope_of_larger) slope_of_larger = implicit::slope_of_larger;
  decltype(&implicit::slopes_of_softmax) slopes_of_softmax = implicit::slopes_of_softmax;
  decltype(&implicit::newton) newton = implicit::newton;
  decltype(&implicit::slope_of_one) of_one = implicit::slope_of_one;
  decltype(&bounds::slope_ranges) of_two = bounds::slope_ranges;
};
const SlopeRules& default_slope_rules();

}  // namespace driftbound::implicit
