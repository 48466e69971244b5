#pragma once

#include <cstdint>
#include <span>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::implicit {

/// What |value - f| <= bound says of f; `stage` only where it decides. A value or bound that is not finite decides nothing.
/// Guarantee: proven
/// Source:    docs/theory.md T-110
PointSign sign_of(double value, double bound, SignStage stage, std::int16_t bits);

/// Of every number in the interval; zero where it holds nothing else.
Sign sign_of(const Interval& value);

/// Shapes:    `point` as many coordinates as the box
bool contains(const Box& box, std::span<const double> point);

}  // namespace driftbound::implicit
