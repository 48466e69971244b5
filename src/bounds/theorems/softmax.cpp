#include "bounds/theorems/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {

std::int64_t sum_height(const SummationOrder& order, std::int64_t n) {
  if (n <= 1) return 0;
  if (order.kind == SummationOrder::Kind::unknown) return n - 1;
  SummationOrder additions = order;
  additions.fma = false;
  const std::vector<char> all(static_cast<std::size_t>(n), 1);
  std::vector<std::int64_t> roundings(static_cast<std::size_t>(n));
  path_lengths(additions, all, roundings);
  return *std::max_element(roundings.begin(), roundings.end()) - 1;  // without the rounding of the term as a product
}

namespace {

/// Bounds of t = e^(x - m), and of the error of the computed exponential.
struct Exponential {
  double low = 0.0;
  Magnitude high;
  Magnitude error;
};

Exponential exponential(double x, double m, FunctionError accuracy, const Machine& machine) {
  const double half_difference = std::max(sub_up(0.5 * m, 0.5 * x), 0.0), difference = std::max(sub_up(m, x), 0.0);
  const Magnitude flushed = machine.flushes ? Magnitude(machine.accumulator->smallest_normal) : Magnitude();
  // u |x - m|, also where |x - m| is beyond the doubles: halves of x and m are exact there.
  const Magnitude argument = (std::isfinite(difference) ? Magnitude(machine.u) * Magnitude(difference)
                                                        : Magnitude(2.0 * machine.u) * Magnitude(half_difference)) +
                             flushed;
  const Magnitude relative = Magnitude(accuracy.units) * Magnitude(machine.u);
  const Magnitude absolute = accuracy.absolute(machine) + flushed;
  Exponential t{exp_down(sub_down(x, m)), Magnitude(exp_up(sub_up(x, m))), Magnitude()};
  // growth: relative error (1 + eps) e^argument - 1. whole: bound of the computed exponential; the error is also at
  // most the larger of that and t.
  const Magnitude growth = relative + (Magnitude(1.0) + relative) * Magnitude(expm1_up(argument.value()));
  const Magnitude whole = Magnitude(exp_up(add_up(sub_up(x, m), argument.value()))) * (Magnitude(1.0) + relative);
  t.error = (x == m ? Magnitude() : std::min(t.high * growth, std::max(t.high, whole))) + absolute;
  if (x == m) t.error += relative;
  return t;
}

/// Whether the sum of exponentials cannot overflow: terms are at most 1 plus their errors. An overflow would not show
/// in the results, which would be 0.
bool stays_finite(std::size_t terms, const Machine& machine) {
  return 4.0 * static_cast<double>(terms) < machine.accumulator->largest;
}

}  // namespace

void softmax_error(std::span<const double> x, std::span<const double> p, FunctionError accuracy, Magnitude sum_factor,
                   const Machine& machine, std::span<double> result) {
  const double m = *std::max_element(x.begin(), x.end());
  std::vector<Exponential> terms;
  double sum_low = 0.0;
  Magnitude error_sum;
  for (const double value : x) {
    terms.push_back(exponential(value, m, accuracy, machine));
    sum_low = add_down(sum_low, terms.back().low);
    error_sum += terms.back().error;
  }
  const Magnitude flushed =
      machine.flushes ? Magnitude(static_cast<double>(x.size())) * Magnitude(machine.eta) : Magnitude();
  error_sum += flushed;
  const double computed_low = mul_down(sub_down(1.0, sum_factor.value()), sub_down(sum_low, error_sum.value()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Exponential& t = terms[i];
    const Magnitude numerator = t.high * (sum_factor + divide_up(error_sum, sum_low)) + t.error;
    const bool is_sound = sum_factor.value() < 1.0 && computed_low > 0.0 && stays_finite(x.size(), machine);
    const Magnitude quotient = is_sound ? divide_up(numerator, computed_low) : Magnitude::infinite();
    result[i] = (quotient + rounding_error(p[i], machine)).value();
  }
}

HiddenShares hidden_shares(std::span<const double> x, std::span<const double> e) {
  constexpr double far_below = 64.0;
  double low = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(e[i])) low = std::max(low, sub_down(x[i], e[i]));
  HiddenShares hidden{std::vector<Magnitude>(x.size()), std::vector<char>(x.size(), 0), {}, false};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exponent = sub_up(add_up(x[i], e[i]), low);
    if (!(exponent <= -far_below)) continue;
    hidden.is_hidden[i] = 1;
    hidden.any = true;
    hidden.largest[i] = Magnitude(exp_up(exponent));
    hidden.total += hidden.largest[i];
  }
  return hidden;
}

Magnitude remainder_beside_hidden(double remainder, double p, Magnitude by_slopes, Magnitude hidden_total) {
  return Magnitude(remainder) + hidden_total + hidden_total + Magnitude(p) * by_slopes;
}

Magnitude remainder_of_hidden(Magnitude largest, double p, double e, Magnitude by_slopes) {
  return largest + Magnitude(p) * (Magnitude(e) + by_slopes);
}

namespace {

/// For errors of an exponent above this, the bound by the computed exponential may be smaller than that by its error.
constexpr double far_argument = 0x1p-8;

/// Bounds of max x - x_i over all x within the radii.
struct Differences {
  double least = 0.0, most = 0.0;
};

std::vector<Differences> differences_of(const UnrecordedRow& row) {
  double highest = -std::numeric_limits<double>::infinity(), lowest = highest;  // bounds of max x
  for (std::size_t i = 0; i < row.centres.size(); ++i) {
    highest = std::max(highest, add_up(row.centres[i], row.radii[i]));
    lowest = std::max(lowest, sub_down(row.centres[i], row.radii[i]));
  }
  std::vector<Differences> differences;
  for (std::size_t i = 0; i < row.centres.size(); ++i) {
    const double low = sub_down(row.centres[i], row.radii[i]), high = add_up(row.centres[i], row.radii[i]);
    differences.push_back({std::max(sub_down(lowest, high), 0.0), sub_up(highest, low)});
  }
  return differences;
}

}  // namespace

void unrecorded_softmax_error(const UnrecordedRow& row, FunctionError accuracy, Magnitude sum_factor,
                              const Machine& machine, std::span<double> result) {
  const Magnitude flushed(machine.flushes ? machine.accumulator->smallest_normal : 0.0);
  const Magnitude relative = Magnitude(accuracy.units) * Magnitude(machine.u);
  const Magnitude absolute = accuracy.absolute(machine) + flushed;
  const std::vector<Differences> differences = differences_of(row);
  std::vector<Magnitude> shares;  // a_j / s
  Magnitude share_sum = Magnitude(machine.flushes ? static_cast<double>(row.centres.size()) : 0.0) * flushed;
  for (std::size_t j = 0; j < row.centres.size(); ++j) {
    const Magnitude argument = Magnitude(machine.u) * Magnitude(differences[j].most) + flushed;
    const Magnitude growth = relative + (Magnitude(1.0) + relative) * Magnitude(expm1_up(argument.value()));
    const Magnitude largest = std::min(Magnitude(row.results[j]), Magnitude(1.0));
    Magnitude share = largest * growth;
    if (argument.value() > far_argument) {
      const double exponent = add_up(mul_up(-differences[j].least, 1.0 - machine.u), flushed.value());
      share = std::min(share, (Magnitude(1.0) + relative) * Magnitude(exp_up(exponent)));
    }
    shares.push_back(share + absolute);
    share_sum += shares.back();
  }
  const double kept = mul_down(sub_down(1.0, sum_factor.value()), sub_down(1.0, share_sum.value()));
  const bool is_sound =
      sum_factor.value() < 1.0 && share_sum.value() < 1.0 && kept > 0.0 && stays_finite(row.centres.size(), machine);
  for (std::size_t i = 0; i < row.centres.size(); ++i) {
    const Magnitude largest = std::min(Magnitude(row.results[i]), Magnitude(1.0));
    const Magnitude numerator = largest * (sum_factor + share_sum) + shares[i];
    const Magnitude quotient = is_sound ? divide_up(numerator, kept) : Magnitude::infinite();
    result[i] = (quotient + unrecorded_rounding(largest + quotient, machine)).value();
  }
}

}  // namespace driftbound::bounds::inline theorems
