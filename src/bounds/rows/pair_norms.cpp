#include "bounds/rows/pair_norms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/rows.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

Magnitude largest_of(std::span<const double> row) {
  return Magnitude(row_kernels().largest(row.data(), row.size()));
}

ElementwiseFactor factor(const MovingRow& x) {
  return {largest_of(x.centre), x.radii.empty() ? x.norm : std::min(largest_of(x.radii), x.norm), x.norm};
}

}  // namespace

Magnitude norm_of_moving_product(const MovingRow& a, const MovingRow& b) {
  return theorems::norm_of_elementwise_product(factor(a), factor(b));
}

Magnitude norm_of_moving_quotient(const MovingRow& a, const MovingRow& b) {
  Magnitude largest_quotient;
  double least_divisor = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < b.centre.size(); ++i) {
    const double divisor = std::abs(b.centre[i]);
    const double radius = b.radii.empty() ? b.norm.value() : b.radii[i];
    largest_quotient = std::max(largest_quotient, divide_up(Magnitude(a.centre[i]), divisor));
    least_divisor = std::min(least_divisor, sub_down(divisor, radius));
  }
  return theorems::norm_of_moving_quotient(a.norm, largest_quotient, b.norm, least_divisor);
}

}  // namespace driftbound::bounds
