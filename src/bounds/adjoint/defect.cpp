#include "bounds/adjoint/defect.hpp"

#include <limits>

namespace driftbound::bounds {

double defect(double size, std::int64_t roundings, std::int64_t products) {
  if (size == 0.0 && products == 0) return 0.0;
  const auto n = static_cast<double>(roundings);
  const double outward = 1.0 + (n + 4.0) * 0x1p-51;
  const double underflowed = static_cast<double>(products + 2) * std::numeric_limits<double>::min();
  return n * 0x1p-53 * size * outward + underflowed;
}

}  // namespace driftbound::bounds
