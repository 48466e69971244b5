#include "implicit/sign_of.hpp"

namespace driftbound::implicit {

Sign sign_of(const Interval& value) {
  if (value.lower() > 0.0) return Sign::positive;
  if (value.upper() < 0.0) return Sign::negative;
  return value.lower() == 0.0 && value.upper() == 0.0 ? Sign::zero : Sign::undecided;
}

}  // namespace driftbound::implicit
