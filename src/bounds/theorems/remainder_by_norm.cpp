#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"

namespace driftbound::bounds::inline theorems {

namespace {

/// Approximation of the largest |d| r / e^2. The bound holds for any number.
double steepest_of(std::span<const double> d, const double* r, const double* e) {
  double largest = 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) {
    const double square = e[i] * e[i];
    if (square > 0.0) largest = std::max(largest, std::abs(d[i] * r[i]) / square);
  }
  return largest;
}

/// sum max(0, |d| r - steepness e^2). Every term is at least the exact one before it is added: `above` and `below`
/// cover the roundings, `lost` the underflow.
double beyond(std::span<const double> d, const double* r, const double* e, double steepness) {
  constexpr double above = 1.0 + 0x1p-50, below = 1.0 - 0x1p-50, lost = 0x1p-1000;
  double sum = 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) {
    const double rest = std::abs(d[i] * r[i]) * above + lost - steepness * e[i] * e[i] * below;
    sum += rest <= 0.0 ? 0.0 : rest;
  }
  return sum;
}

}  // namespace

Magnitude remainder_by_norm(std::span<const double> d, const double* r, const double* e, double norm) {
  const std::size_t n = d.size();
  const auto terms = static_cast<std::int64_t>(n);
  const auto outward = [&](double sum) { return Magnitude(theorems::outward(sum, terms + 8, terms)); };
  const Magnitude of_slopes = Magnitude(0x1p-49) * outward(row_kernels().weighted_sum(d.data(), e, n));
  const double steepest = steepest_of(d, r, e);
  Magnitude least = Magnitude::infinite();
  for (double steepness = steepest; steepness > 0.0 && std::isfinite(steepness); steepness *= 0.25) {
    const Magnitude rest = outward(beyond(d, r, e, steepness));
    const Magnitude sum = Magnitude(steepness) * Magnitude(norm) * Magnitude(norm) + rest;
    if (!(sum < least)) break;
    least = sum;
  }
  return least + of_slopes;
}

}  // namespace driftbound::bounds::inline theorems
