#include "bounds/chance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bounds/elementary.hpp"
#include "bounds/matrix.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {

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

}  // namespace driftbound::bounds
