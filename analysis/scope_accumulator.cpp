#include "analysis/scope_accumulator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

double utilisation_of(double error, double bound) {
  if (error == 0.0) return 0.0;
  return error / bound;
}

}  // namespace

double quantile(std::vector<double>& values, double p) {
  std::replace_if(
      values.begin(), values.end(), [](double value) { return std::isnan(value); },
      std::numeric_limits<double>::infinity());
  const auto last = static_cast<double>(values.size() - 1);
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(p * last));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

double median(std::vector<double>& values) {
  return quantile(values, 0.5);
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

void ScopeAccumulator::judge(BoundState& state, const BoundValues& values, std::size_t i, const Interval& error,
                             const WorstCase& element) {
  BoundSummary& summary = state.summary;
  const double bound = values.values[i];
  if (!values.description->not_applicable.empty() && !(bound < std::numeric_limits<double>::infinity())) {
    ++summary.without_statement;
    return;
  }
  ++summary.checked;
  if (error.lower() > bound) {
    ++summary.violations;
  } else if (summary.question == Question::any_run && !(bound < std::numeric_limits<double>::infinity())) {
    ++summary.not_certifiable;
  } else if (!(error.upper() <= bound) || !(bound < std::numeric_limits<double>::infinity())) {
    ++summary.undecided;
  }
  summary.max_bound = std::max(summary.max_bound, bound);
  const double utilisation = utilisation_of(element.error, bound);
  summary.max_utilisation = std::max(summary.max_utilisation, utilisation);
  if (!summary.is_measurement() && bound > ulp(element.computed, format(output_format_)))
    summary.approach = std::max(summary.approach, utilisation);
  if (!values.remainder.empty() && std::isfinite(bound)) {
    const double share = bound > 0.0 ? values.remainder[i] / bound : 0.0;
    summary.remainder_share = std::max(summary.remainder_share.value_or(0.0), share);
  }
  if (element.error > 0.0) state.bound_over_error.push_back(bound / element.error);
  if (utilisation > state.worst_utilisation) {
    state.worst_utilisation = utilisation;
    state.worst = element;
    state.worst.bound = bound;
    state.worst.bound_name = summary.name;
  }
}

void ScopeAccumulator::add(std::span<const double> computed, std::span<const Ball> exact,
                           const std::vector<BoundValues>& bounds, std::int64_t first_sample, std::int64_t per_sample) {
  add_bounds(bounds);
  const Format& output = format(output_format_);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    if (!std::isfinite(computed[i])) {
      ++summary_.non_finite;
      continue;
    }
    ++summary_.elements;
    WorstCase element;
    element.sample = first_sample + static_cast<std::int64_t>(i) / per_sample;
    element.element = static_cast<std::int64_t>(i) % per_sample;
    element.computed = computed[i];
    element.reference = exact[i].hi;
    const Interval error = error_of(computed[i], exact[i]);
    if (exact[i].is_finite()) {
      element.error = approx_error_of(computed[i], exact[i]);
      summary_.reference_radius = std::max(summary_.reference_radius, exact[i].radius.value());
      summary_.max_ulps = std::max(summary_.max_ulps, element.error / ulp(exact[i].hi, output));
      sum_of_squares_ += element.error * element.error;
      if (element.error > summary_.max_error || !summary_.worst) {
        summary_.max_error = std::max(summary_.max_error, element.error);
        summary_.worst = element;
      }
      if (round_to(exact[i].hi, output, Rounding::nearest_even) == computed[i]) ++bit_exact_;
    } else {
      summary_.reference_radius = std::numeric_limits<double>::infinity();
    }
    for (std::size_t b = 0; b < bounds.size(); ++b) judge(bounds_[b], bounds[b], i, error, element);
  }
}

ScopeSummary ScopeAccumulator::finish() {
  if (summary_.elements > 0) {
    const auto count = static_cast<double>(summary_.elements);
    summary_.rms_error = std::sqrt(sum_of_squares_ / count);
    summary_.bit_exact = static_cast<double>(bit_exact_) / count;
  }
  double highest = -1.0;
  for (BoundState& state : bounds_) {
    if (!state.bound_over_error.empty()) state.summary.median_bound_over_error = median(state.bound_over_error);
    if (state.summary.gives_verdict() && !state.summary.is_measurement() && state.worst_utilisation > highest) {
      highest = state.worst_utilisation;
      if (highest > 0.0) summary_.worst = state.worst;
    }
    summary_.bounds.push_back(std::move(state.summary));
  }
  return std::move(summary_);
}

}  // namespace driftbound::analysis
