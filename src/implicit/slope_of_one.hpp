#pragma once

#include "driftbound/model/ops.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::implicit::inline theorems {

/// bounds::slope_range(), with functions in double where derivatives are monotone between a few known points.
/// Guarantee: proven
/// Tightness: a few units of 2^-53 wider
/// Throws:    as bounds::slope_range()
/// Source:    docs/theory.md T-121, T-80
Interval slope_of_one(const Op& op, const Interval& x);

}  // namespace driftbound::implicit::inline theorems
