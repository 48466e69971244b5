#include "bounds/adjoint/defect.hpp"

#include <limits>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

double defect(double size, std::int64_t roundings, std::int64_t products) {
  if (size == 0.0 && products == 0) return 0.0;
  const auto n = static_cast<double>(roundings);
  const double outward = 1.0 + (n + 4.0) * 0x1p-51;
  const double underflowed = static_cast<double>(products + 2) * std::numeric_limits<double>::min();
  return n * 0x1p-53 * size * outward + underflowed;
}

double single_defect(double norm, double largest, std::int64_t n) {
  const Magnitude terms(static_cast<double>(n)), of_matrix(largest);
  const Magnitude of_roundings(defect(norm, (n + 1) << 29, 0));  // u = 2^29 w
  return (of_roundings * of_matrix + Magnitude(0x1p-149) * (terms + sqrt_up(terms) * of_matrix)).value();
}

bool is_single_enough(double norm, double largest, std::int64_t n) {
  constexpr double most = 0x1p60;
  return norm <= most && largest <= most && n < std::int64_t{1} << 20;
}

}  // namespace driftbound::bounds
