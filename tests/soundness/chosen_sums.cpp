#include "soundness/chosen_sums.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

namespace driftbound::soundness {
namespace {

/// Of a float32 number of that magnitude.
double unit_in_last_place(double x) {
  return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23);
}

/// What rounding to a multiple of `unit` adds to such a multiple and x, in units; ties go either way and count as none.
double gain(double x, double unit) {
  const double added = std::nearbyint(x / unit) - x / unit;
  return std::abs(added) == 0.5 ? 0.0 : added;
}

/// How much a pair gains where it is added to multiples of `unit`, its own addition included.
double gain_of_pair(float a, float b, double unit) {
  const double sum = a + b;
  return gain(sum, unit) + (sum - a - b) / unit;
}

/// Those that gain much by themselves as they are, of the others pairs that do.
std::vector<float> leaves(std::span<const float> terms, double unit) {
  constexpr double enough = 0.3;
  std::vector<float> chosen;
  std::vector<std::pair<double, float>> rest;
  for (const float term : terms) {
    const double own = gain(term, unit);
    if (own > enough) {
      chosen.push_back(term);
    } else {
      rest.emplace_back(own, term);
    }
  }
  std::sort(rest.begin(), rest.end());
  while (!rest.empty()) {
    const auto [own, term] = rest.front();
    rest.erase(rest.begin());
    const auto with = [&, term = term](const std::pair<double, float>& other) {
      return gain_of_pair(term, other.second, unit);
    };
    const auto best =
        std::max_element(rest.begin(), rest.end(), [&](const auto& a, const auto& b) { return with(a) < with(b); });
    if (best == rest.end() || with(*best) <= own) {
      chosen.push_back(term);
    } else {
      chosen.push_back(term + best->second);
      rest.erase(best);
    }
  }
  return chosen;
}

/// Upwards, the terms of one sign first: largest first, then those of the other sign, smallest first.
float sum_upwards(const std::vector<float>& first, const std::vector<float>& then) {
  float sum = 0.0f;
  double planned = 0.0;
  for (const std::vector<float>* side : {&first, &then}) {
    for (auto from = side->begin(); from != side->end();) {
      const double unit = unit_in_last_place(planned + *from);
      auto to = from;
      while (to != side->end() && unit_in_last_place(planned + *to) == unit) planned += *to++;
      for (const float leaf : leaves({from, to}, unit)) sum += leaf;
      from = to;
    }
  }
  return sum;
}

}  // namespace

float sum_erring(std::vector<float> terms, double direction) {
  const float in_turn = std::accumulate(terms.begin(), terms.end(), 0.0f);
  if (!std::all_of(terms.begin(), terms.end(), [](float term) { return std::isfinite(term); })) return in_turn;
  if (direction < 0.0) {
    for (float& term : terms) term = -term;
    return -sum_erring(std::move(terms), 1.0);
  }
  std::sort(terms.begin(), terms.end(), std::greater<>());
  const auto zero = std::find_if(terms.begin(), terms.end(), [](float term) { return term <= 0.0f; });
  const auto negative = std::find_if(zero, terms.end(), [](float term) { return term < 0.0f; });
  const std::vector<float> falling(terms.begin(), zero), rising_below(negative, terms.end());
  const std::vector<float> rising(falling.rbegin(), falling.rend()),
      falling_below(rising_below.rbegin(), rising_below.rend());
  return std::max({in_turn, sum_upwards(falling, rising_below), sum_upwards(falling_below, rising)});
}

}  // namespace driftbound::soundness
