#include "bounds/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bounds/elementary.hpp"
#include "bounds/rounding.hpp"
#include "bounds/sums.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {

std::int64_t sum_height(const SummationOrder& order, std::int64_t n) {
  if (n <= 1) return 0;
  if (order.kind == SummationOrder::Kind::unknown) return n - 1;
  const SummationOrder additions{order.kind, order.parameter, false};
  const std::vector<char> all(static_cast<std::size_t>(n), 1);
  std::vector<std::int64_t> roundings(static_cast<std::size_t>(n));
  path_lengths(additions, all, roundings);
  return *std::max_element(roundings.begin(), roundings.end()) - 1;  // its own rounding as a product left out
}

namespace {

/// t = e^(x - m) between bounds, and how far the computed exponential may lie from it.
struct Exponential {
  double low = 0.0;
  Magnitude high;
  Magnitude error;
};

Exponential exponential(double x, double m, double units, const Machine& machine) {
  const double difference = std::max(sub_up(m, x), 0.0);  // |x - m|
  const Magnitude flushed = machine.flushes ? Magnitude(machine.accumulator->smallest_normal) : Magnitude();
  const Magnitude argument = Magnitude(machine.u) * Magnitude(difference) + flushed;
  const Magnitude relative = Magnitude(units) * Magnitude(machine.u);
  const Magnitude absolute = Magnitude(units) * Magnitude(machine.eta) + flushed;
  Exponential t{exp_down(sub_down(x, m)), Magnitude(exp_up(sub_up(x, m))), Magnitude()};
  // (1 + eps) e^argument - 1, against everything there is where the argument is far off
  const Magnitude growth = relative + (Magnitude(1.0) + relative) * Magnitude(expm1_up(argument.value()));
  const Magnitude whole = Magnitude(exp_up(add_up(sub_up(x, m), argument.value()))) * (Magnitude(1.0) + relative);
  t.error = (x == m ? Magnitude() : std::min(t.high * growth, std::max(t.high, whole))) + absolute;
  if (x == m) t.error += relative;
  return t;
}

}  // namespace

void softmax_error(std::span<const double> x, std::span<const double> p, double units, Magnitude sum_factor,
                   const Machine& machine, std::span<double> result) {
  const double m = *std::max_element(x.begin(), x.end());
  std::vector<Exponential> terms;
  double sum_low = 0.0;
  Magnitude error_sum;
  for (const double value : x) {
    terms.push_back(exponential(value, m, units, machine));
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
    const bool is_sound = sum_factor.value() < 1.0 && computed_low > 0.0;
    const Magnitude quotient = is_sound ? divide_up(numerator, computed_low) : Magnitude::infinite();
    result[i] = (quotient + rounding_error(p[i], machine)).value();
  }
}

}  // namespace driftbound::bounds
