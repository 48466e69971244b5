#include "bounds/theorems/sketches.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// (r L(lambda) + log failure) / lambda, r = directions, rounded down (T-78).
double quantile_by(double lambda, double directions, double failure) {
  const Interval gaussian = Interval(1.0) / sqrt(Interval(1.0) + Interval(2.0) * Interval(lambda));
  const Interval rest = exp(Interval(-39.47) / Interval(lambda));
  const Interval gain = -log(gaussian + rest) * Interval(directions) + log(Interval(failure));
  return (gain / Interval(lambda)).lower();
}

}  // namespace

double coin_flips(std::uint64_t bits) {
  return 0.25 * (std::popcount(bits) - 32);
}

double sketch_quantile(std::int64_t directions, double failure) {
  double best = 0.0;
  for (double lambda = 0x1p-6; lambda < 32.0; lambda *= 1.0625)
    best = std::max(best, quantile_by(lambda, static_cast<double>(directions), failure));
  return best;
}

Magnitude sketch_share(Magnitude amplitude, double noise) {
  if (amplitude == Magnitude()) return {};
  const Magnitude ratio = divide_up(amplitude, noise);
  return ratio * ratio;
}

Magnitude sketch_radius(Magnitude shares, Magnitude norm, double chi, Magnitude lost) {
  const double denominator = sub_down(sqrt_down(chi), lost.value());
  return denominator > 0.0 ? divide_up(sqrt_up(shares) * norm, denominator) : Magnitude::infinite();
}

bool sketch_covers(double entered, double amplitude) {
  return entered <= amplitude;
}

}  // namespace driftbound::bounds::inline theorems
