#include "bounds/local/heuristics.hpp"

#include <cmath>
#include <limits>

#include "driftbound/num/gamma.hpp"

namespace driftbound::bounds {

double folklore_unit_roundoff(const ArithmeticModel& arithmetic) {
  return unit_roundoff(format(arithmetic.input), Rounding::nearest_even);
}

Tensor<double> estimate_seed_gamma(std::span<const std::int64_t> fan_ins, double unit_roundoff,
                                   const Tensor<double>& y) {
  Magnitude factor;
  for (const std::int64_t n : fan_ins) factor += gamma(n, unit_roundoff);
  constexpr double up = 1.0 + 0x1p-52, infinity = std::numeric_limits<double>::infinity();
  const double f = factor.value() * up;
  Tensor<double> result = y;
  for (double& value : result.values) {
    const double size = std::abs(value);
    value = size < infinity ? f * size : infinity;
  }
  return result;
}

}  // namespace driftbound::bounds
