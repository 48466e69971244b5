#include "bounds/theorems/sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/gamma.hpp"

namespace driftbound::bounds::inline theorems {

std::int64_t leaf_count(std::int64_t products, std::int64_t stored) {
  return products + stored;
}

Magnitude any_order_factor(std::int64_t leaves, const Machine& machine) {
  if (leaves <= 0) return Magnitude();
  if (!machine.to_nearest()) return growth(leaves, machine.u);
  return Magnitude(mul_up(static_cast<double>(leaves), machine.u));
}

namespace {

/// Upper bound of log2 n.
double log2_above(std::int64_t n) {
  return std::ceil(std::log2(static_cast<double>(n)) * 4.0) / 4.0 + 0.25;
}

/// The largest u for which T-186 (c) and T-187 hold.
constexpr double coarsest_merge = 0x1p-6;

/// (1 - u)^n, rounded down.
double lost_by(std::int64_t roundings, double u) {
  return std::max(0.0, sub_down(1.0, mul_up(static_cast<double>(roundings), u)));
}

}  // namespace

Magnitude error_of_merges(std::int64_t count, Magnitude total, const Machine& machine) {
  if (count < 2) return Magnitude();
  const Magnitude merges(log2_above(count));
  const Magnitude enlarged = Magnitude(1.0) + Magnitude(8.0) * growth(count + 4, machine.u);
  const Magnitude underflow =
      Magnitude(4.0 * static_cast<double>(count)) * Magnitude(static_cast<double>(count)) * Magnitude(machine.eta);
  return growth(3, machine.u) * merges * total * enlarged + underflow;
}

double least_sum(double total, std::int64_t count, const Machine& machine) {
  if (count < 2) return total;
  return div_down(total, add_up(1.0, mul_up(static_cast<double>(count - 1), machine.u)));
}

double least_squares(double spread, std::int64_t count, bool sums_are_exact, const Machine& machine) {
  double kept = lost_by(1, machine.u), underflow = 0.0;
  if (machine.stores_narrower()) {
    kept = mul_down(kept, lost_by(1, unit_roundoff(*machine.output, machine.rounding)));
    underflow = machine.output->smallest_subnormal;
  }
  const auto n = static_cast<double>(count);
  const double differences = sub_down(mul_down(spread, kept), mul_up(sqrt_up(n), underflow));
  if (!(differences > 0.0)) return 0.0;
  const double squares =
      sub_down(mul_down(mul_down(differences, differences), kept), mul_up(n, add_up(underflow, machine.eta)));
  if (!(squares > 0.0)) return 0.0;
  return sums_are_exact ? squares : least_sum(squares, count, machine);
}

double least_merged_squares(double spread, Magnitude squares, std::int64_t count, const Machine& machine) {
  if (count < 2 || !(machine.u <= coarsest_merge) || !squares.is_finite()) return 0.0;
  const auto n = static_cast<double>(count);
  const Magnitude underflow = Magnitude(4.0 * n) * Magnitude(n) * Magnitude(machine.eta);
  const double theta = growth(5, machine.u).value();
  const Magnitude shifts = Magnitude(1.18) * (Magnitude(1.0) + Magnitude(2.0 * theta)) * Magnitude(log2_above(count));
  const double moved = sub_down(spread, underflow.value());
  if (!(moved > 0.0)) return 0.0;
  const double root = div_down(moved, (Magnitude(1.0) + shifts).value());
  const double steps = mul_down(mul_down(root, root), sub_down(0.5, theta));
  const double lost = (Magnitude(machine.u) * Magnitude(machine.u) * squares).value();
  const double kept = sub_down(mul_down(sub_down(steps, lost), lost_by(9, machine.u)), underflow.value());
  return kept > 0.0 ? least_sum(kept, count, machine) : 0.0;
}

Magnitude most_merged_squares(Magnitude range, std::int64_t count, const Machine& machine) {
  if (count < 2) return Magnitude();
  if (!(machine.u <= coarsest_merge)) return Magnitude::infinite();
  const Magnitude n(static_cast<double>(count)), one(1.0);
  const Magnitude steps = n * Magnitude(log2_above(count)) * range * range * (one + growth(9, machine.u)) +
                          Magnitude(4.0) * n * n * Magnitude(machine.eta);
  return steps * (one + any_order_factor(count, machine));
}

Magnitude reach_of_merged_mean(double least, double most, double sum, Magnitude radius, std::int64_t count,
                               const Machine& machine) {
  if (!(machine.u <= coarsest_merge)) return Magnitude::infinite();
  const auto n = static_cast<double>(count);
  return Magnitude(std::max({0.0, sub_up(mul_up(n, most), sum), sub_up(sum, mul_down(n, least))})) + radius;
}

Magnitude path_factor(std::int64_t roundings, const Machine& machine) {
  return roundings <= 0 ? Magnitude() : growth(roundings, machine.u);
}

Magnitude underflow_term(std::int64_t products, std::int64_t leaves, const Machine& machine) {
  const std::int64_t roundings = machine.flushes ? products + leaves : products;
  if (roundings <= 0) return Magnitude();
  return Magnitude(static_cast<double>(roundings)) * Magnitude(machine.eta) *
         (Magnitude(1.0) + growth(leaves, machine.u));
}

Magnitude with_rounded_parts(Magnitude factor, const Machine& machine) {
  if (!machine.reduced) return factor;
  const double u = unit_roundoff(format(machine.reduced->format), machine.rounding);
  const Magnitude additions = Magnitude(1.0) + growth(machine.reduced->parts, machine.u);
  const Magnitude parts = Magnitude(1.0) + growth(machine.reduced->parts + 1, u);
  return Magnitude(sub_up(((Magnitude(1.0) + factor) * additions * parts).value(), 1.0));
}

Magnitude part_underflow(Magnitude factor, const Machine& machine) {
  if (!machine.reduced) return {};
  const double eta = underflow_unit(format(machine.reduced->format), machine.rounding, machine.flushes);
  const Magnitude roundings(2.0 * machine.reduced->parts + 1.0);
  return roundings * Magnitude(eta) * (Magnitude(1.0) + with_rounded_parts(factor, machine));
}

bool cannot_overflow(Magnitude sum, Magnitude error, const Machine& machine) {
  constexpr int most_digits_in_8_bits = 4;  // results in formats of 8 bits may be saturated (T-14)
  const bool is_wide = machine.accumulator->precision > most_digits_in_8_bits &&
                       (!machine.reduced || format(machine.reduced->format).precision > most_digits_in_8_bits);
  const bool shows = machine.to_nearest() && !machine.tensor_core && is_wide;
  return shows || stays_finite(sum, error, machine);
}

bool stays_finite(Magnitude sum, Magnitude error, const Machine& machine) {
  double largest = machine.accumulator->largest;
  if (machine.reduced) largest = std::min(largest, format(machine.reduced->format).largest);
  return (sum + error).value() < largest;
}

namespace {

using Lengths = std::span<std::int64_t>;
using Pattern = std::span<const char>;

std::int64_t count_nonzero(Pattern nonzero) {
  return static_cast<std::int64_t>(nonzero.size()) - std::count(nonzero.begin(), nonzero.end(), char{0});
}

void add_to_nonzero(Pattern nonzero, Lengths roundings, std::int64_t more) {
  for (std::size_t k = 0; k < nonzero.size(); ++k) {
    if (nonzero[k] != 0) roundings[k] += more;
  }
}

/// The j-th of the m nonzero products of a chain is rounded once as a product and by every later addition; without
/// fused multiply-add also by its own addition, except for the first one.
void chain_lengths_of(Pattern nonzero, std::int64_t m, bool fma, Lengths roundings) {
  std::int64_t j = 0;
  for (std::size_t k = 0; k < nonzero.size(); ++k) {
    if (nonzero[k] == 0) continue;
    ++j;
    roundings[k] = fma ? m - j + 1 : 1 + std::min(m - 1, m - j + 1);
  }
}

/// Consecutive chains, whose sums are added from first to last.
void lengths_of_chains(const std::vector<std::int64_t>& lengths, bool fma, Pattern nonzero, Lengths roundings) {
  std::vector<std::size_t> used;  // first index of every chain that is not all zero
  std::vector<std::size_t> extents;
  std::size_t first = 0;
  for (const std::int64_t length : lengths) {
    const auto extent = static_cast<std::size_t>(length);
    const std::int64_t count = count_nonzero(nonzero.subspan(first, extent));
    chain_lengths_of(nonzero.subspan(first, extent), count, fma, roundings.subspan(first, extent));
    if (count > 0) {
      used.push_back(first);
      extents.push_back(extent);
    }
    first += extent;
  }
  const auto chains = static_cast<std::int64_t>(used.size());
  for (std::int64_t c = 1; c <= chains; ++c) {
    const auto at = static_cast<std::size_t>(c - 1);
    add_to_nonzero(nonzero.subspan(used[at], extents[at]), roundings.subspan(used[at], extents[at]),
                   std::min(chains - 1, chains - c + 1));
  }
}

/// The number of terms in the left half is the largest power of two below n.
void pairwise_lengths(Pattern nonzero, bool fma, Lengths roundings) {
  const std::size_t n = nonzero.size();
  if (n == 0) return;
  if (n == 1 || (n == 2 && fma)) return chain_lengths_of(nonzero, count_nonzero(nonzero), fma, roundings);
  std::size_t half = 1;
  while (2 * half < n) half *= 2;
  pairwise_lengths(nonzero.first(half), fma, roundings.first(half));
  pairwise_lengths(nonzero.subspan(half), fma, roundings.subspan(half));
  const bool both = count_nonzero(nonzero.first(half)) > 0 && count_nonzero(nonzero.subspan(half)) > 0;
  if (both) add_to_nonzero(nonzero, roundings, 1);
}

/// Chains, then the additions of their sums that a chain meets; one that adds what is certainly 0 rounds nothing.
void lengths_of_dealt(const SummationOrder& order, Pattern nonzero, Lengths roundings) {
  if (nonzero.empty()) return;
  const SumSchedule schedule = schedule_of(order.parts, static_cast<std::int64_t>(nonzero.size()));
  std::vector<char> has_terms;
  std::size_t first = 0;
  for (const std::size_t last : schedule.ends) {
    std::vector<char> of_chain;
    for (std::size_t i = first; i < last; ++i) of_chain.push_back(nonzero[schedule.terms[i]]);
    std::vector<std::int64_t> lengths(of_chain.size());
    const std::int64_t count = count_nonzero(of_chain);
    chain_lengths_of(of_chain, count, order.fma, lengths);
    for (std::size_t i = first; i < last; ++i) roundings[schedule.terms[i]] = lengths[i - first];
    has_terms.push_back(count > 0 ? 1 : 0);
    first = last;
  }
  std::vector<char> rounds;  // by join
  for (const SumJoins::Join& join : schedule.joins.list) {
    rounds.push_back(has_terms[join.to] != 0 && has_terms[join.from] != 0 ? 1 : 0);
    has_terms[join.to] = has_terms[join.to] != 0 || has_terms[join.from] != 0 ? 1 : 0;
  }
  std::vector<std::int64_t> more(schedule.ends.size(), 0);  // of what a chain's place holds, from the last join on
  for (std::size_t i = schedule.joins.list.size(); i-- > 0;) {
    const SumJoins::Join& join = schedule.joins.list[i];
    more[join.to] += rounds[i];
    more[join.from] = more[join.to];
  }
  first = 0;
  for (std::size_t chain = 0; chain < schedule.ends.size(); ++chain) {
    for (std::size_t i = first; i < schedule.ends[chain]; ++i)
      if (nonzero[schedule.terms[i]] != 0) roundings[schedule.terms[i]] += more[chain];
    first = schedule.ends[chain];
  }
}

/// Number of additions on a path of a tree of the declared height. A declaration that is impossible, since such a tree
/// has at most 2^height leaves, is ignored.
std::int64_t additions_within(std::int64_t height, std::int64_t leaves) {
  const bool is_possible = height >= 62 || (height >= 0 && leaves <= std::int64_t{1} << height);
  return is_possible ? std::min(height, leaves - 1) : leaves - 1;
}

}  // namespace

void path_lengths(const SummationOrder& order, std::span<const char> nonzero, std::span<std::int64_t> roundings) {
  std::fill(roundings.begin(), roundings.end(), 0);
  if (order.kind == SummationOrder::Kind::height)
    return add_to_nonzero(nonzero, roundings, 1 + additions_within(order.parameter, count_nonzero(nonzero)));
  if (order.kind == SummationOrder::Kind::dealt) return lengths_of_dealt(order, nonzero, roundings);
  if (order.kind == SummationOrder::Kind::pairwise) return pairwise_lengths(nonzero, order.fma, roundings);
  lengths_of_chains(chain_lengths(order, static_cast<std::int64_t>(nonzero.size())), order.fma, nonzero, roundings);
}

}  // namespace driftbound::bounds::inline theorems
