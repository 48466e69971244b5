#include "bounds/theorems/defects.hpp"

#include <limits>

namespace driftbound::bounds::inline theorems {

double defect(double size, std::int64_t roundings, std::int64_t products) {
  if (size == 0.0 && products == 0) return 0.0;
  const auto n = static_cast<double>(roundings);
  const double outward = 1.0 + (n + 4.0) * 0x1p-51;
  const double underflowed = static_cast<double>(products + 2) * std::numeric_limits<double>::min();
  return n * 0x1p-53 * size * outward + underflowed;
}

double single_defect(double norm, double largest, std::int64_t n) {
  const double of_roundings = defect(norm, n << 29, 0);  // u = 2^29 w
  return (of_roundings * largest + 0x1p-149 * static_cast<double>(n)) * (1.0 + 0x1p-50);
}

double single_rounding(double size) {
  return (defect(size, std::int64_t{2} << 29, 0) + 0x1p-149) * (1.0 + 0x1p-50);
}

bool is_single_enough(double norm, double largest, std::int64_t n) {
  constexpr double most = 0x1p60;
  return norm <= most && largest <= most && n < std::int64_t{1} << 20;
}

double coarse_error(std::size_t k) {
  return static_cast<double>(2 * k + 8) * 0x1p-24;
}

}  // namespace driftbound::bounds::inline theorems
