#pragma once

#include <array>
#include <span>

#include "driftbound/model/ops.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// Enclosures of the difference quotients of functions over intervals, for bounds over boxes (T-77).

/// Encloses (f(s) - f(t)) / (s - t) for all s, t in x, f a function of one element; the whole line if f may jump or be
/// undefined there.
/// Throws:    InvalidArgument for another op
/// Source:    docs/theory.md T-77
Interval slope_range(const Op& op, const Interval& x);

/// Enclosures of slopes S, T with f(s, t) - f(s', t') in S (s - s') + T (t - t') for all s, s' in a, t, t' in b, f a
/// function of two elements (Add, Sub, Mul, Div, Max, Min, PRelu, a comparison).
/// Throws:    InvalidArgument for another op
/// Source:    docs/theory.md T-77
std::array<Interval, 2> slope_ranges(const Op& op, const Interval& a, const Interval& b);

}  // namespace theorems

}  // namespace driftbound::bounds
