#include "bounds/theorems/sums.hpp"

#include <algorithm>
#include <bit>
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

Magnitude error_of_merges(std::int64_t count, Magnitude total, const Machine& machine) {
  if (count < 2) return Magnitude();
  const Magnitude merges(std::ceil(std::log2(static_cast<double>(count)) * 4.0) / 4.0 + 0.25);  // above log2 N
  const Magnitude enlarged = Magnitude(1.0) + Magnitude(8.0) * growth(count + 4, machine.u);
  const Magnitude underflow =
      Magnitude(4.0 * static_cast<double>(count)) * Magnitude(static_cast<double>(count)) * Magnitude(machine.eta);
  return growth(3, machine.u) * merges * total * enlarged + underflow;
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

/// Chains of the parts, then the additions of parts: each of them, or as many as there are rounds.
void lengths_of_dealt(const SummationOrder& order, Pattern nonzero, Lengths roundings) {
  if (nonzero.empty()) return;
  const SumSchedule schedule = schedule_of(order.dealing, static_cast<std::int64_t>(nonzero.size()));
  const auto parts = static_cast<std::int64_t>(schedule.ends.size());
  const bool in_sequence = order.combination == Combination::sequential;
  const auto rounds = static_cast<std::int64_t>(std::bit_width(schedule.ends.size() - 1));
  std::size_t first = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::size_t last = schedule.ends[static_cast<std::size_t>(part)];
    std::vector<char> of_part;
    for (std::size_t i = first; i < last; ++i) of_part.push_back(nonzero[schedule.terms[i]]);
    std::vector<std::int64_t> lengths(of_part.size());
    chain_lengths_of(of_part, count_nonzero(of_part), order.fma, lengths);
    add_to_nonzero(of_part, lengths, in_sequence ? std::min(parts - 1, parts - part) : rounds);
    for (std::size_t i = first; i < last; ++i) roundings[schedule.terms[i]] = lengths[i - first];
    first = last;
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
