#include "implicit/sign_of.hpp"

#include <cmath>
#include <limits>

namespace driftbound::implicit {

PointSign sign_of(double value, double bound, SignStage stage, std::int16_t bits) {
  const bool is_number = std::isfinite(value);
  PointSign point{Sign::undecided, SignStage::none, bits, value,
                  is_number ? bound : std::numeric_limits<double>::infinity()};
  if (!is_number || !(std::fabs(value) > bound)) return point;
  point.sign = value > 0.0 ? Sign::positive : Sign::negative;
  point.stage = stage;
  return point;
}

Sign sign_of(const Interval& value) {
  if (value.lower() > 0.0) return Sign::positive;
  if (value.upper() < 0.0) return Sign::negative;
  return value.lower() == 0.0 && value.upper() == 0.0 ? Sign::zero : Sign::undecided;
}

bool contains(const Box& box, std::span<const double> point) {
  bool inside = true;
  for (std::size_t c = 0; c < point.size(); ++c)
    inside = inside && box.lower[c] <= point[c] && point[c] <= box.upper[c];
  return inside;
}

}  // namespace driftbound::implicit
