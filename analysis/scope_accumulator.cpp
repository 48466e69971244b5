#include "analysis/scope_accumulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Whether x is rounded to y; quickly for float32.
bool rounds_to(double x, double y, const Format& format) {
  if (format.id == FormatId::fp32) return static_cast<double>(static_cast<float>(x)) == y;
  return round_to(x, format, Rounding::nearest_even) == y;
}

/// computed - mid to nearest, and at least its magnitude with the radius.
struct ErrorParts {
  double to_nearest = 0.0, at_most = infinity;
};

/// Sums of two numbers lose no more than 2^-53 of what they come to. Not finite where the ball is not.
ErrorParts error_parts(double computed, const Ball& exact) {
  const double value = computed - exact.hi, part = value - computed;
  const double rest = (computed - (value - part)) - (exact.hi + part);
  const double low = rest - exact.lo;
  const double sum = std::abs(value + low) + 0x1p-52 * std::abs(low) + exact.radius.value();
  return {std::abs(value + low), sum == 0.0 ? 0.0 : sum * (1.0 + 0x1p-50) + 0x1p-1060};
}

double utilisation_of(double error, double bound) {
  if (error == 0.0) return 0.0;
  return error / bound;
}

/// A little less, so that rounding a quotient does not matter.
double nearly(double x) {
  return x * (1.0 - 0x1p-40);
}

/// ulp() of finite numbers, without a call where the format is narrower than double.
class UnitsInLastPlace {
public:
  explicit UnitsInLastPlace(const Format& format) : format_(format) {}
  double operator()(double x) const {
    if (format_.id == FormatId::fp64) return ulp(x, format_);
    const std::uint64_t power = std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000u;
    return std::max(std::bit_cast<double>(power) * to_last_place_, format_.smallest_subnormal);
  }

private:
  const Format& format_;
  const double to_last_place_ = std::ldexp(1.0, 1 - format_.precision);
};

}  // namespace

double quantile(std::vector<double>& values, double p) {
  std::replace_if(
      values.begin(), values.end(), [](double value) { return std::isnan(value); }, infinity);
  const auto last = static_cast<double>(values.size() - 1);
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(p * last));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

double median(std::vector<double>& values) {
  return quantile(values, 0.5);
}

void SampledValues::halve() {
  for (std::size_t i = 0; 2 * i + 1 < values_.size(); ++i) values_[i] = values_[2 * i + 1];
  values_.resize(values_.size() / 2);
  stride_ *= 2;
}

void ScopeAccumulator::add_bounds(const std::vector<BoundValues>& bounds) {
  if (bounds_.empty()) {
    for (const BoundValues& bound : bounds) {
      BoundState state;
      const BoundResult& from = *bound.description;
      state.summary.name = from.name;
      state.summary.guarantee = from.guarantee;
      state.summary.question = from.question;
      state.summary.theorem = from.theorem;
      state.summary.condition = from.condition;
      bounds_.push_back(std::move(state));
    }
  }
  if (bounds.size() != bounds_.size())
    throw InvalidArgument("bounds: two blocks of samples have other numbers of bounds");
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (bounds[i].description->name != bounds_[i].summary.name)
      throw InvalidArgument("bounds: a block of samples has '" + bounds[i].description->name + "' where another has '" +
                            bounds_[i].summary.name + "'");
    bounds_[i].summary.seconds += bounds[i].description->seconds;
    BoundSummary& summary = bounds_[i].summary;
    summary.guarantee = std::max(summary.guarantee, bounds[i].description->guarantee);
    if (bounds[i].description->failure_probability)
      summary.failure_probability =
          add_up(summary.failure_probability.value_or(0.0), *bounds[i].description->failure_probability);
    if (summary.not_applicable.empty()) summary.not_applicable = bounds[i].description->not_applicable;
    if (bounds[i].description->guarantee == Guarantee::probabilistic) summary.theorem = bounds[i].description->theorem;
    const std::string& condition = bounds[i].description->condition;
    if (summary.condition.find(condition) == std::string::npos)
      summary.condition += (summary.condition.empty() ? "" : "; ") + condition;
  }
}

/// Where an upper bound of the error does not settle it.
void ScopeAccumulator::decide(BoundSummary& summary, const Measured& element, const Ball& exact, double bound) {
  const bool is_finite = bound < infinity;
  const Interval error = error_of(element.computed, exact);
  if (error.lower() > bound) {
    ++summary.violations;
  } else if (summary.question == Question::any_run && !is_finite) {
    ++summary.not_certifiable;
  } else if (!(error.upper() <= bound) || !is_finite) {
    ++summary.undecided;
  }
}

void ScopeAccumulator::judge(BoundState& state, const BoundValues& values, std::span<const Ball> exact) {
  BoundSummary& summary = state.summary;
  const bool may_say_nothing = !values.description->not_applicable.empty();
  const bool is_measurement = summary.is_measurement();
  double largest = summary.max_bound;
  std::int64_t silent = 0;
  for (std::size_t at = 0; at < measured_.size(); ++at) {
    const Measured& element = measured_[at];
    const double bound = values.values[element.index];
    if (may_say_nothing && !(bound < infinity)) {
      ++silent;
      continue;
    }
    if (!(element.at_most <= bound && bound < infinity)) decide(summary, element, exact[element.index], bound);
    largest = largest < bound ? bound : largest;
    const bool is_wide = !is_measurement && bound > element.one_unit;
    // no quotient where it changes nothing
    if (!(element.error <= bound * nearly(is_wide ? summary.approach : state.worst_utilisation)))
      note_utilisation(state, at, bound);
    if (element.error > 0.0) state.bound_over_error.add([&] { return bound / element.error; });
  }
  summary.max_bound = largest;
  summary.without_statement += silent;
  summary.checked += static_cast<std::int64_t>(measured_.size()) - silent;
  if (!values.remainder.empty()) note_remainders(summary, values);
}

void ScopeAccumulator::note_remainders(BoundSummary& summary, const BoundValues& values) const {
  for (const Measured& element : measured_) {
    const double bound = values.values[element.index];
    if (!std::isfinite(bound)) continue;
    const double share = bound > 0.0 ? values.remainder[element.index] / bound : 0.0;
    summary.remainder_share = std::max(summary.remainder_share.value_or(0.0), share);
  }
}

void ScopeAccumulator::note_utilisation(BoundState& state, std::size_t at, double bound) const {
  const Measured& element = measured_[at];
  BoundSummary& summary = state.summary;
  const double utilisation = utilisation_of(element.error, bound);
  summary.max_utilisation = std::max(summary.max_utilisation, utilisation);
  if (!summary.is_measurement() && bound > element.one_unit) summary.approach = std::max(summary.approach, utilisation);
  if (utilisation > state.worst_utilisation) {
    state.worst_utilisation = utilisation;
    state.worst.bound = bound;
    state.new_worst = at;
  }
}

void ScopeAccumulator::measure(const Elements& elements, std::size_t first, std::size_t last) {
  const auto& [computed, exact, first_sample, per_sample] = elements;
  const Format& output = format(output_format_);
  const UnitsInLastPlace unit_at(output);
  measured_.clear();
  for (std::size_t i = first; i < last; ++i) {
    if (!std::isfinite(computed[i])) {
      ++summary_.non_finite;
      continue;
    }
    ++summary_.elements;
    Measured element{i, computed[i], 0.0, infinity, unit_at(computed[i])};
    const ErrorParts parts = error_parts(computed[i], exact[i]);
    const bool is_plain = parts.at_most < infinity;
    if (is_plain || exact[i].is_finite()) {
      element.error = is_plain ? parts.to_nearest : approx_error_of(computed[i], exact[i]);
      element.at_most = is_plain ? parts.at_most : infinity;
      summary_.reference_radius = std::max(summary_.reference_radius, exact[i].radius.value());
      const double unit = unit_at(exact[i].hi);
      if (element.error > summary_.max_ulps * unit) summary_.max_ulps = element.error / unit;
      sum_of_squares_ += element.error * element.error;
      if (element.error > summary_.max_error || !summary_.worst) {
        summary_.max_error = std::max(summary_.max_error, element.error);
        summary_.worst = worst_case(element, elements);
      }
      if (rounds_to(exact[i].hi, computed[i], output)) ++bit_exact_;
    } else {
      summary_.reference_radius = infinity;
    }
    measured_.push_back(element);
  }
}

WorstCase ScopeAccumulator::worst_case(const Measured& element, const Elements& elements) {
  WorstCase worst;
  const auto index = static_cast<std::int64_t>(element.index);
  worst.sample = elements.first_sample + index / elements.per_sample;
  worst.element = index % elements.per_sample;
  worst.computed = element.computed;
  worst.reference = elements.exact[element.index].hi;
  worst.error = element.error;
  return worst;
}

void ScopeAccumulator::add(std::span<const double> computed, std::span<const Ball> exact,
                           const std::vector<BoundValues>& bounds, std::int64_t first_sample, std::int64_t per_sample) {
  constexpr std::size_t elements_at_once = 512;  // stay near the processor while bound after bound is held against them
  const Elements elements{computed, exact, first_sample, per_sample};
  add_bounds(bounds);
  for (std::size_t first = 0; first < computed.size(); first += elements_at_once) {
    measure(elements, first, std::min(computed.size(), first + elements_at_once));
    for (std::size_t b = 0; b < bounds.size(); ++b) add(elements, bounds[b], bounds_[b]);
  }
}

void ScopeAccumulator::add(const Elements& elements, const BoundValues& bound, BoundState& state) {
  judge(state, bound, elements.exact);
  if (!state.new_worst) return;
  const double worst_bound = state.worst.bound;
  state.worst = worst_case(measured_[*state.new_worst], elements);
  state.worst.bound = worst_bound;
  state.worst.bound_name = state.summary.name;
  state.new_worst.reset();
}

ScopeSummary ScopeAccumulator::finish() {
  if (summary_.elements > 0) {
    const auto count = static_cast<double>(summary_.elements);
    summary_.rms_error = std::sqrt(sum_of_squares_ / count);
    summary_.bit_exact = static_cast<double>(bit_exact_) / count;
  }
  double highest = -1.0;
  for (BoundState& state : bounds_) {
    std::vector<double>& ratios = state.bound_over_error.values();
    if (!ratios.empty()) state.summary.median_bound_over_error = median(ratios);
    if (state.summary.gives_verdict() && !state.summary.is_measurement() && state.worst_utilisation > highest) {
      highest = state.worst_utilisation;
      if (highest > 0.0) summary_.worst = state.worst;
    }
    summary_.bounds.push_back(std::move(state.summary));
  }
  return std::move(summary_);
}

}  // namespace driftbound::analysis
