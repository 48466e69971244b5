#include "bounds/theorems/chance.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/theorems/outward.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// A hash with the same value for 0 and -0.
std::size_t hash_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return static_cast<std::size_t>((bits * 0x9e3779b97f4a7c15u) >> 20);
}

/// Whether two of the numbers may be equal, or one is NaN. Every number sets a bit of a table, at its hash; a number
/// whose bit is set already is compared with all others. If more than `few` numbers collide, the result is true.
bool may_be_equal(std::span<const double> numbers) {
  constexpr std::size_t bits_a_number = 64, few = 16;
  thread_local std::vector<std::uint64_t> words;
  const std::size_t places = std::bit_ceil(bits_a_number * numbers.size() + 64);
  words.assign(places / 64, 0);
  std::vector<double> later;
  for (const double x : numbers) {
    if (std::isnan(x)) return true;
    const std::size_t place = hash_of(x) & (places - 1);
    const std::uint64_t bit = std::uint64_t{1} << place % 64;
    if ((std::exchange(words[place / 64], words[place / 64] | bit) & bit) != 0) later.push_back(x);
  }
  return later.size() > few || std::any_of(later.begin(), later.end(),
                                           [&](double x) { return std::count(numbers.begin(), numbers.end(), x) > 1; });
}

}  // namespace

double tail_factor(double failure_probability, std::int64_t statements) {
  const double log_ratio = std::log(2.0 * static_cast<double>(statements)) - std::log(failure_probability);
  return std::sqrt(2.0 * log_ratio) * (1.0 + 0x1p-40);
}

double failure_probability_of(double tail_factor, std::int64_t statements) {
  const double each = exp_up(-0.5 * mul_down(tail_factor, tail_factor));
  return std::min(1.0, mul_up(2.0 * static_cast<double>(statements), each));
}

Magnitude with_chance(Magnitude rest, Magnitude squares, double tail_factor) {
  return rest + Magnitude(tail_factor) * sqrt_up(squares);
}

Magnitude with_repeats(Magnitude bound, std::int64_t repeats) {
  return bound * sqrt_up(Magnitude(static_cast<double>(repeats)));
}

double coin_tail(std::int64_t heads, std::int64_t coins) {
  if (2 * heads <= coins) return 1.0;
  const double n = static_cast<double>(coins), share = static_cast<double>(heads) / n, rest = 1.0 - share;
  const double entropy = -share * std::log(share) - (rest > 0.0 ? rest * std::log(rest) : 0.0);
  const double rounding = 0x1p-40 * n;
  return std::min(1.0, exp_up(-n * (std::log(2.0) - entropy) + rounding));
}

Magnitude weighted_squares(std::span<const double> d, std::span<const double> amplitudes,
                           std::span<const std::uint32_t> alike) {
  std::vector<double> weights(d.size()), largest(d.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t set = alike.empty() ? i : alike[i];
    weights[set] += std::abs(d[i]);
    if (!(amplitudes[i] <= largest[set]) && !std::isnan(largest[set])) largest[set] = amplitudes[i];
  }
  double sum = 0.0;
  bool any = false;
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (largest[i] == 0.0) continue;
    any = any || weights[i] != 0.0 || !std::isfinite(largest[i]);
    const double weighted = weights[i] * largest[i];
    sum += weighted * weighted;
  }
  const auto size = static_cast<std::int64_t>(d.size());
  if (!any) return Magnitude();
  // The second term covers products that underflow by at most 2^-1075 before they are squared.
  return Magnitude(outward(sum, 4 * size, size)) + Magnitude(static_cast<double>(size) * 0x1p-1060);
}

double largest_square(std::span<const double> d, std::span<const double> amplitudes) {
  double largest = 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) largest = std::max(largest, std::abs(d[i] * amplitudes[i]));
  return largest * largest;
}

std::vector<std::uint32_t> correlated_elements(std::span<const double> values, std::span<const double> amplitudes) {
  constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  const std::size_t places = std::bit_ceil(2 * values.size() + 1);
  std::vector<std::uint32_t> first_at(places, none), alike(values.size());
  const auto same = [&](std::uint32_t i, std::uint32_t j) {
    return values[i] == values[j] && amplitudes[i] == amplitudes[j];
  };
  bool any = false;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    std::size_t place = hash_of(values[i]) & (places - 1);
    while (first_at[place] != none && !same(first_at[place], i)) place = (place + 1) & (places - 1);
    const bool joins = first_at[place] != none;
    if (!joins) first_at[place] = i;
    alike[i] = first_at[place];
    any = any || (joins && amplitudes[i] != 0.0);
  }
  return any ? alike : std::vector<std::uint32_t>();
}

bool may_have_equals(std::span<const double> values, std::span<const double> amplitudes,
                     std::span<const double> estimates) {
  thread_local std::vector<double> erring;
  erring.resize(values.size() + 1);  // one element more: each value is written before it is decided whether it is kept
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    erring[count] = values[i] + 0.0;  // -0 becomes 0
    count += amplitudes[i] != 0.0 || estimates[i] != 0.0 ? 1u : 0u;
  }
  return may_be_equal(std::span(erring).first(count));
}

std::string refused_by(const Machine& machine) {
  if (machine.tensor_core) return "a matrix unit cuts what it adds off: its errors have a direction";
  if (!machine.to_nearest()) return "the accumulator does not round to nearest: its errors have a direction";
  if (machine.flushes) return "results below the normal range are flushed to 0: such errors have a direction";
  if (machine.u > coarsest_by_chance)
    return "the accumulator is narrower than float32: sums stagnate in it that do not look like it";
  if (machine.products_reduce) return "parts of its sums are rounded to a narrower format, which is not modelled";
  return "";
}

}  // namespace driftbound::bounds::inline theorems
