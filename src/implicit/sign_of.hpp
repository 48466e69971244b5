#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::implicit {

/// What |value - f| <= bound says of f; `stage` only where it decides. A value or bound that is not finite decides nothing.
/// Guarantee: proven
/// Source:    docs/theory.md T-110
inline PointSign sign_of(double value, double bound, SignStage stage, std::int16_t bits) {
  const bool is_number = std::fabs(value) <= std::numeric_limits<double>::max();
  const bool is_decided = is_number && std::fabs(value) > bound;
  return {is_decided ? (value > 0.0 ? Sign::positive : Sign::negative) : Sign::undecided,
          is_decided ? stage : SignStage::none, bits, value,
          is_number ? bound : std::numeric_limits<double>::infinity()};
}

/// Of every number in the interval; zero where it holds nothing else.
Sign sign_of(const Interval& value);

/// Shapes:    `point` as many coordinates as the box
inline bool contains(const Box& box, std::span<const double> point) {
  bool inside = true;
  for (std::size_t c = 0; c < point.size(); ++c)
    inside = inside && box.lower[c] <= point[c] && point[c] <= box.upper[c];
  return inside;
}

}  // namespace driftbound::implicit
