#include "num/rounding_decisions.hpp"

#include "driftbound/num/directed.hpp"

namespace driftbound::num::inline theorems {

bool tie_goes_away(bool significand_is_odd, Rounding rounding) {
  return rounding == Rounding::nearest_away || significand_is_odd;
}

double step_up(double rounded) {
  return next_up(rounded);
}

double step_down(double rounded) {
  return next_down(rounded);
}

std::int64_t counted_roundings(std::int64_t n) {
  return n;
}

}  // namespace driftbound::num::inline theorems
