#include "bounds/theorems/outward.hpp"

#include <cmath>
#include <limits>

#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// For sums of at least this size, the underflow of up to 2^50 products is below 2^-52 of the sum.
constexpr double underflow_does_not_show = 0x1p-900;

}  // namespace

double outward(double value, std::int64_t roundings, std::int64_t products) {
  if (std::isnan(value)) return std::numeric_limits<double>::infinity();
  const bool one_rounding_up_suffices = value >= underflow_does_not_show || (value == 0.0 && products == 0);
  if (one_rounding_up_suffices) return value * (1.0 + static_cast<double>(2 * roundings + 4) * 0x1p-53);
  const double factor = 1.0 + static_cast<double>(2 * roundings) * 0x1p-53;
  const double underflowed = static_cast<double>(products) * std::numeric_limits<double>::denorm_min();
  return add_up(mul_up(value, factor), underflowed);
}

}  // namespace driftbound::bounds::inline theorems
