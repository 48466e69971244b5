#include "bounds/chance.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "bounds/elementary.hpp"
#include "bounds/matrix.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

/// The same for 0 and -0.
std::size_t hash_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return static_cast<std::size_t>((bits * 0x9e3779b97f4a7c15u) >> 20);
}

/// A bit for every number, by some of its bits mixed up: numbers that share one with others may be equal.
class MarkedNumbers {
public:
  /// Whether two are equal, or one is none.
  static bool have_equals(std::span<const double> numbers) {
    thread_local MarkedNumbers marked, shared;
    marked.clear(numbers.size());
    std::vector<double> later;  // of those that share a bit
    for (const double x : numbers) {
      if (std::isnan(x)) return true;
      if (marked.mark(x)) later.push_back(x);
    }
    if (later.size() <= few)
      return std::any_of(later.begin(), later.end(),
                         [&](double x) { return std::count(numbers.begin(), numbers.end(), x) > 1; });
    shared.clear(numbers.size());
    for (const double x : later) shared.mark(x);
    std::vector<double> chosen;
    std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(chosen), [](double x) { return shared.has(x); });
    std::sort(chosen.begin(), chosen.end());
    return std::adjacent_find(chosen.begin(), chosen.end()) != chosen.end();
  }

private:
  static constexpr std::size_t few = 16;

  void clear(std::size_t count) {
    constexpr std::size_t bits_a_number = 64;  // that share one by chance are few
    places_ = std::bit_ceil(bits_a_number * count + 64);
    words_.assign(places_ / 64, 0);
  }
  std::size_t place_of(double x) const { return hash_of(x) & (places_ - 1); }
  bool has(double x) const { return (words_[place_of(x) / 64] >> place_of(x) % 64 & 1u) != 0; }
  /// Whether it was marked before.
  bool mark(double x) {
    std::uint64_t& word = words_[place_of(x) / 64];
    const std::uint64_t bit = std::uint64_t{1} << place_of(x) % 64;
    return (std::exchange(word, word | bit) & bit) != 0;
  }

  std::size_t places_ = 64;
  std::vector<std::uint64_t> words_;
};

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
  // (x + e)^2 summed for products x that underflow by e <= 2^-1075
  return Magnitude(outward(sum, 4 * size, size)) + Magnitude(static_cast<double>(size) * 0x1p-1060);
}

double largest_square(std::span<const double> d, std::span<const double> amplitudes) {
  double largest = 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) largest = std::max(largest, std::abs(d[i] * amplitudes[i]));
  return largest * largest;
}

std::vector<std::uint32_t> elements_alike(std::span<const double> values, std::span<const double> amplitudes) {
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

bool has_equals(std::span<const double> values, std::span<const double> amplitudes, std::span<const double> estimates) {
  thread_local std::vector<double> erring;
  erring.resize(values.size() + 1);  // one more: every element is written before it is kept
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    erring[count] = values[i] + 0.0;  // one zero
    count += amplitudes[i] != 0.0 || estimates[i] != 0.0 ? 1u : 0u;
  }
  return MarkedNumbers::have_equals(std::span(erring).first(count));
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

}  // namespace driftbound::bounds
