#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bounds/rounding.hpp"
#include "bounds/sums.hpp"

namespace driftbound::bounds {
namespace {

/// The true value of a nonnegative expression with fewer than 2^12 roundings to nearest, some of which may underflow.
double outward(double x) {
  return x * (1.0 + 0x1p-40) + 0x1p-1000;
}

/// sum_{k=2..last} ufp(min(most, sqrt(k) reach))^power in double, binade by binade from above; `power` is 1 or 2.
double sum_of_first_places(double most, double reach, double last, int power) {
  double sum = 0.0, binade = first_place(most);
  if (!std::isfinite(most) || reach == 0.0) return most;
  const double ratio = binade / reach;
  double below_binade = std::min(ratio * ratio, 0x1p200) * (1.0 - 0x1p-40);  // sqrt(k) reach < binade for k up to this
  while (last >= 2.0) {
    const auto below = static_cast<double>(static_cast<std::int64_t>(std::clamp(below_binade, 1.0, last)));
    sum += (last - below) * (power == 1 ? binade : binade * binade);
    last = below;
    binade *= 0.5;
    below_binade *= 0.25;
  }
  return sum;
}

double growth_of(const TermSizes& terms, const Machine& machine) {
  return 1.0 + 2.0 * static_cast<double>(terms.leaves) * machine.u;
}

/// sum_{k=2..n-1} ufp(min(c M, c sqrt(k) q + c S_t) + h)^power with n terms other than the small ones
double sum_over_additions(const TermSizes& terms, std::int64_t n, double small, const Machine& machine, int power) {
  if (n < 3) return 0.0;
  const double growth = growth_of(terms, machine);
  const double total = terms.total.value();
  const double underflow = terms.underflow.value();
  const double most = outward(growth * (0.5 * (total + std::min(terms.sum.value(), total))) + underflow);
  const double reach = outward(growth * terms.norm.value() + small + underflow);
  return sum_of_first_places(most, reach, static_cast<double>(n - 1), power);
}

}  // namespace

Magnitude partial_sums_error(const TermSizes& terms, const Machine& machine) {
  const double underflow = terms.underflow.value();
  const double small = terms.small == 0 ? 0.0 : growth_of(terms, machine) * terms.small_total.value() + underflow;
  const std::int64_t n = terms.leaves - std::max<std::int64_t>(terms.small - 1, 0);
  const double additions = sum_over_additions(terms, n, small, machine, 1);
  const double error = machine.u * (terms.rounded.value() + additions) + small + underflow;
  return Magnitude(error == 0.0 ? 0.0 : outward(error));
}

Magnitude partial_sums_squares(const TermSizes& terms, const Machine& machine) {
  const bool rounds_products = terms.rounded != Magnitude();
  if (terms.leaves < (rounds_products ? 2 : 3)) return Magnitude();
  const double products = rounds_products ? terms.norm.value() * terms.norm.value() : 0.0;
  return Magnitude(
      outward(machine.u * machine.u * (products + sum_over_additions(terms, terms.leaves, 0.0, machine, 2))));
}

}  // namespace driftbound::bounds
