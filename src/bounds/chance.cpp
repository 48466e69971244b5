#include "bounds/chance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bounds/elementary.hpp"
#include "bounds/matrix.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t fewest_constant = 16, fewest_stagnant = 257;
constexpr double constant_spread = 1.0 + 0x1p-8, stagnant_ratio = 0x1p12;

bool is_constant(const std::vector<double>& terms) {
  const auto [least, most] = std::minmax_element(terms.begin(), terms.end());
  return terms.size() >= fewest_constant && *most <= constant_spread * *least;
}

/// The terms without the largest have their upper median at (n - 1) / 2.
bool is_stagnant(std::vector<double>& terms) {
  if (terms.size() < fewest_stagnant) return false;
  const double most = *std::max_element(terms.begin(), terms.end());
  const auto middle = terms.begin() + static_cast<std::ptrdiff_t>((terms.size() - 1) / 2);
  std::nth_element(terms.begin(), middle, terms.end());
  return most > stagnant_ratio * *middle;
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

Magnitude weighted_squares(std::span<const double> d, std::span<const double> amplitudes,
                           std::span<const std::uint32_t> alike) {
  std::vector<double> weights(d.size());
  for (std::size_t i = 0; i < d.size(); ++i) weights[alike.empty() ? i : alike[i]] += std::abs(d[i]);
  double sum = 0.0;
  bool any = false;
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (amplitudes[i] == 0.0) continue;
    any = any || weights[i] != 0.0 || !std::isfinite(amplitudes[i]);
    const double weighted = weights[i] * amplitudes[i];
    sum += weighted * weighted;
  }
  const auto size = static_cast<std::int64_t>(d.size());
  if (!any) return Magnitude();
  // (x + e)^2 summed for products x that underflow by e <= 2^-1075
  return Magnitude(outward(sum, 4 * size, size)) + Magnitude(static_cast<double>(size) * 0x1p-1060);
}

std::vector<std::uint32_t> elements_alike(std::span<const double> values, std::span<const double> amplitudes) {
  std::vector<std::uint32_t> order(values.size()), alike(values.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto same = [&](std::uint32_t i, std::uint32_t j) {
    return values[i] == values[j] && amplitudes[i] == amplitudes[j];
  };
  std::sort(order.begin(), order.end(), [&](std::uint32_t i, std::uint32_t j) {
    if (values[i] != values[j]) return values[i] < values[j];
    return amplitudes[i] != amplitudes[j] ? amplitudes[i] < amplitudes[j] : i < j;
  });
  bool any = false;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const bool joins = k > 0 && same(order[k - 1], order[k]);
    alike[order[k]] = joins ? alike[order[k - 1]] : order[k];
    any = any || (joins && amplitudes[order[k]] != 0.0);
  }
  return any ? alike : std::vector<std::uint32_t>();
}

std::string refused_by(const Machine& machine) {
  if (machine.tensor_core) return "a matrix unit cuts what it adds off: its errors have a direction";
  if (!machine.to_nearest()) return "the accumulator does not round to nearest: its errors have a direction";
  if (machine.flushes) return "results below the normal range are flushed to 0: such errors have a direction";
  if (machine.products_reduce) return "parts of its sums are rounded to a narrower format, which is not modelled";
  return "";
}

std::string describe(TermPattern pattern) {
  switch (pattern) {
    case TermPattern::none:
      return "";
    case TermPattern::constant:
      return "a sum of 16 terms or more, all of one magnitude within 2^-8, rounds again and again alike";
    case TermPattern::stagnant:
      return "a sum of more than 256 terms has one above 2^12 times the median of the others: small terms are lost "
             "alike";
  }
  return "";
}

TermPattern pattern_of(std::vector<double>& magnitudes) {
  std::erase_if(magnitudes, [](double x) { return !(x > 0.0); });
  if (magnitudes.empty()) return TermPattern::none;
  if (is_constant(magnitudes)) return TermPattern::constant;
  return is_stagnant(magnitudes) ? TermPattern::stagnant : TermPattern::none;
}

bool may_have_pattern(const TermMoments& moments) {
  const auto n = static_cast<double>(moments.count);
  const double slack = 1.0 + 0x1p-8;
  const double square = moments.total * moments.total;
  const bool may_be_constant =
      moments.count >= static_cast<std::int64_t>(fewest_constant) && !(n * moments.squares > slack * square);
  // Half of the terms or more are at most 2^-12 q each, and the others are below by Cauchy and Schwarz.
  const double most = (std::sqrt(0.5 * n + 1.0) + n * 0x1p-12) * slack;
  const bool may_be_stagnant =
      moments.count >= static_cast<std::int64_t>(fewest_stagnant) && !(square > most * most * moments.squares);
  return may_be_constant || may_be_stagnant;
}

std::vector<TermPattern> patterns_of(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                                     std::span<const TermMoments> moments) {
  // Zeros of both factors leave fewer terms than are counted.
  const auto has_zero = [](std::span<const double> x) { return std::find(x.begin(), x.end(), 0.0) != x.end(); };
  const bool counts = !(has_zero(a) && has_zero(b));
  std::vector<TermPattern> patterns(moments.size(), TermPattern::none);
  std::vector<double> terms;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const bool is_long = moments[i].count >= static_cast<std::int64_t>(fewest_constant);
    if (!is_long || (counts && !may_have_pattern(moments[i]))) continue;
    const auto column = static_cast<std::int64_t>(i) % plan.n, row = static_cast<std::int64_t>(i) / plan.n;
    terms.clear();
    for (std::int64_t k = 0; k < plan.k; ++k)
      terms.push_back(a[plan.a_index(row / plan.m, row % plan.m, k)] * b[plan.b_index(row / plan.m, k, column)]);
    patterns[i] = pattern_of(terms);
  }
  return patterns;
}

}  // namespace driftbound::bounds
