#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// The true value of a nonnegative expression with fewer than 2^12 roundings to nearest, some of which may underflow.
double outward(double x) {
  return x * (1.0 + 0x1p-40) + 0x1p-1000;
}

/// What is known of the partial sums of terms, every number enlarged by c and h.
struct PartialSums {
  double most = 0.0;    ///< of any
  double reach = 0.0;   ///< sqrt(k) times this is the most that k terms add up to …
  double offset = 0.0;  ///< … and all but k: with this
};

/// K with sqrt(k) reach + offset < binade for all k <= K.
double terms_below(double binade, double reach, double offset, double most) {
  const double ratio = std::max(binade - offset, 0.0) / reach;
  const double terms = std::min(ratio * ratio, 0x1p200) * (1.0 - 0x1p-40);
  return static_cast<double>(static_cast<std::int64_t>(std::clamp(terms, 1.0, most)));
}

/// sum_{k=2..n-2} ufp(min(most, sqrt(k) reach, offset + sqrt(n - k) reach))^power in double, binade by binade from
/// above, for n = last + 3 terms; `power` is 1 or 2.
double sum_of_first_places(const PartialSums& sums, double last, int power) {
  double sum = 0.0, binade = ufp(sums.most);
  while (last >= 1.0) {
    const double from_left = terms_below(binade, sums.reach, 0.0, last + 1.0) - 1.0;
    const double from_right = terms_below(binade, sums.reach, sums.offset, last + 1.0) - 1.0;
    const double below = std::min(from_left + from_right, last);
    sum += (last - below) * (power == 1 ? binade : binade * binade);
    last = below;
    binade *= 0.5;
  }
  return sum;
}

double growth_of(const TermSizes& terms, const Machine& machine) {
  return 1.0 + 2.0 * static_cast<double>(terms.leaves) * machine.u;
}

/// What nodes with terms other than the small ones add up, n terms in all: the root's is left out where there are no
/// small ones.
double sum_over_additions(const TermSizes& terms, double small, const Machine& machine, int power) {
  const std::int64_t n = terms.leaves - terms.small;
  const auto nodes = static_cast<double>(std::max<std::int64_t>(terms.small == 0 ? n - 2 : n - 1, 0));
  const double at_most_sized = terms.small == 0 ? 1.0 : 2.0;
  const double growth = growth_of(terms, machine);
  const double total = terms.total.value(), sum = std::min(terms.sum.value(), total);
  const double underflow = terms.underflow.value(), magnitudes = 0.5 * (total + sum);
  PartialSums sums;
  sums.most = outward(growth * magnitudes + underflow);
  sums.reach = outward(growth * terms.one_sided.value_or(terms.norm).value() + small + underflow);
  sums.offset = outward(sum + (growth - 1.0) * magnitudes + underflow);
  if (nodes == 0.0) return 0.0;
  if (!std::isfinite(sums.most)) return sums.most;
  const double largest = ufp(sums.most);
  const double of_largest = std::min(nodes, at_most_sized) * (power == 1 ? largest : largest * largest);
  return of_largest + sum_of_first_places(sums, static_cast<double>(n - 3), power);
}

}  // namespace

Magnitude partial_sums_error(const TermSizes& terms, const Machine& machine) {
  const double underflow = terms.underflow.value();
  const double small = terms.small == 0 ? 0.0 : growth_of(terms, machine) * terms.small_total.value() + underflow;
  const double additions = sum_over_additions(terms, small, machine, 1);
  const double error = machine.u * (terms.rounded.value() + additions) + small + underflow;
  return Magnitude(error == 0.0 ? 0.0 : outward(error));
}

Magnitude partial_sums_squares(const TermSizes& terms, const Machine& machine) {
  const bool rounds_products = terms.rounded != Magnitude();
  if (terms.leaves < (rounds_products ? 2 : 3)) return Magnitude();
  const double products = rounds_products ? terms.norm.value() * terms.norm.value() : 0.0;
  TermSizes all = terms;
  all.small = 0;
  return Magnitude(outward(machine.u * machine.u * (products + sum_over_additions(all, 0.0, machine, 2))));
}

}  // namespace driftbound::bounds::inline theorems
