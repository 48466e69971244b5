#pragma once

#include <cstdint>

#include "driftbound/num/format.hpp"

/// The decisions of `num` on which soundness rests.
namespace driftbound::num::inline theorems {

/// Whether round_to takes the neighbour that is larger in magnitude for a value halfway between two.
bool tie_goes_away(bool significand_is_odd, Rounding rounding);

/// The outward step of every directed operation (and so of Magnitude, Interval and Ball): the next double above or
/// below.
double step_up(double rounded);
double step_down(double rounded);

/// The number of roundings that gamma and growth count for n.
std::int64_t counted_roundings(std::int64_t n);

}  // namespace driftbound::num::inline theorems
