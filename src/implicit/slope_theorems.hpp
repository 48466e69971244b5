#pragma once

#include <cstdint>
#include <span>

#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::implicit::inline theorems {

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

}  // namespace driftbound::implicit::inline theorems
