#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "bounds/rounding.hpp"
#include "bounds/sums.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

/// What every partial sum of some terms shares; all numbers in double, as computed.
struct SortedSizes {
  double growth = 1.0;      ///< c
  double widening = 1.0;    ///< for roundings in double
  double magnitudes = 0.0;  ///< M
  double above = 0.0;       ///< max(s, 0), at least
  double below = 0.0;       ///< max(-s, 0), at least
  double underflow = 0.0;   ///< h

  /// The true value of a nonnegative expression in them; some of it may underflow.
  double outward(double x) const { return x * widening + 0x1p-1000; }
};

SortedSizes sorted_sizes(const ListedTerms& terms, const Machine& machine) {
  const auto [positive, negative, error] = terms.totals();
  SortedSizes sizes;
  sizes.growth = 1.0 + 2.0 * terms.count() * machine.u;
  sizes.widening = 1.0 + (terms.count() + 64.0) * 0x1p-52;
  sizes.magnitudes = std::max(positive, negative);
  sizes.above = std::max(positive - negative + error, 0.0);
  sizes.below = std::max(negative - positive + error, 0.0);
  sizes.underflow = terms.underflow.value();
  return sizes;
}

using Sorted = std::span<const double>;

/// sum_{k=2..n-2} g(k) and the topmost nodes, as numbers of at most `most`; `apart`: what terms set apart add up to.
double sum_over_sorted(Sorted positive, Sorted negative, const SortedSizes& sizes, double apart) {
  const std::size_t n = positive.size() + negative.size();
  const double most = sizes.outward(sizes.growth * sizes.magnitudes + sizes.underflow);
  const double offset = sizes.growth * apart + (sizes.growth - 1.0) * sizes.magnitudes + sizes.underflow;
  const std::size_t topmost = apart > 0.0 ? std::min<std::size_t>(2, n - 1) : std::size_t{n > 2 ? 1U : 0U};
  double sum = static_cast<double>(topmost) * first_place(most), a = 0.0, b = 0.0;
  for (std::size_t k = 1; 2 * k <= n; ++k) {
    if (k <= positive.size()) a += positive[k - 1];
    if (k <= negative.size()) b += negative[k - 1];
    if (k == 1) continue;
    const double few = sizes.growth * (std::max(a, b) + apart) + sizes.underflow;
    const double all_but_few = std::max(b + sizes.above, a + sizes.below) + offset;
    sum += first_place(std::min(most, sizes.outward(few)));
    if (2 * k < n) sum += first_place(std::min(most, sizes.outward(all_but_few)));
  }
  return sum;
}

/// The largest ones, those above `least`, of numbers that descend.
Sorted above(const std::vector<double>& numbers, double least) {
  const auto end = std::upper_bound(numbers.begin(), numbers.end(), least, std::greater<>());
  return {numbers.begin(), end};
}

double sum_of_rest(const std::vector<double>& numbers, Sorted largest) {
  return std::accumulate(numbers.begin() + static_cast<std::ptrdiff_t>(largest.size()), numbers.end(), 0.0);
}

}  // namespace

void ListedTerms::clear() {
  positive.clear();
  negative.clear();
  rounded = 0.0;
}

void ListedTerms::add_number(double x) {
  if (x == 0.0) return;
  (x < 0.0 ? negative : positive).push_back(std::abs(x));
}

void ListedTerms::add_product(double a, double b) {
  if (a == 0.0 || b == 0.0) return;
  const double magnitude = mul_up(std::abs(a), std::abs(b));
  (std::signbit(a) != std::signbit(b) ? negative : positive).push_back(magnitude);
  rounded += first_place(magnitude);
}

ListedTerms::Totals ListedTerms::totals() const {
  const auto sum = [](const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
  const double above = sum(positive), below = sum(negative);
  return {above, below, (count() + 4.0) * 0x1p-52 * (above + below)};
}

Magnitude sorted_terms_error(ListedTerms& terms, const Machine& machine) {
  const SortedSizes sizes = sorted_sizes(terms, machine);
  if (!std::isfinite(sizes.above + sizes.below)) return Magnitude::infinite();
  std::sort(terms.positive.begin(), terms.positive.end(), std::greater<>());
  std::sort(terms.negative.begin(), terms.negative.end(), std::greater<>());
  double nodes = sum_over_sorted(terms.positive, terms.negative, sizes, 0.0), rest = 0.0;
  const double least = 0.25 * machine.u * sizes.magnitudes;
  const Sorted positive = above(terms.positive, least), negative = above(terms.negative, least);
  const bool has_small = positive.size() + negative.size() < terms.positive.size() + terms.negative.size();
  if (has_small && positive.size() + negative.size() > 0) {
    const double apart = sum_of_rest(terms.positive, positive) + sum_of_rest(terms.negative, negative);
    const double fewer = sum_over_sorted(positive, negative, sizes, apart);
    const double costs = sizes.growth * apart + sizes.underflow;
    if (machine.u * fewer + costs < machine.u * nodes) {
      nodes = fewer;
      rest = costs;
    }
  }
  const double error = machine.u * (terms.rounded + nodes) + rest + sizes.underflow;
  return Magnitude(error == 0.0 ? 0.0 : sizes.outward(error));
}

}  // namespace driftbound::bounds
