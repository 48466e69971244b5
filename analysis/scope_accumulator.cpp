#include "analysis/scope_accumulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "analysis/vectorised.hpp"
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

/// What holds where an upper bound of the error does not settle it.
void count_verdict(BoundSummary& summary, double computed, const Ball& exact, double bound) {
  const bool is_finite = bound < infinity;
  if (!is_finite) ++summary.infinite;
  const Interval error = error_of(computed, exact);
  if (error.lower() > bound) {
    ++summary.violations;
  } else if (summary.question == Question::any_run && !is_finite) {
    ++summary.not_certifiable;
  } else if (!(error.upper() <= bound) || !is_finite) {
    ++summary.undecided;
  }
}

/// Whether a finite bound answers its question: that for the declared order is the error of one run.
bool answers_question(const BoundSummary& bound) {
  return bound.gives_verdict() && bound.kind != BoundKind::replay;
}

/// Whether the error is certainly within a finite bound.
bool is_decided_within(double computed, const Ball& exact, double bound) {
  return bound < infinity && error_of(computed, exact).upper() <= bound;
}

/// Whether every bound is above its error beyond doubt and none is used to a larger share than those given.
DRIFTBOUND_VECTORISED
bool are_clear(const double* bounds, const double* at_most, const double* errors, const double* one_unit,
               double share_of_wide, double share, std::size_t n) {
  std::int64_t unclear = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double bound = bounds[i];
    const double used = bound * (bound > one_unit[i] ? share_of_wide : share);
    unclear +=
        std::int64_t{!(at_most[i] <= bound)} | std::int64_t{!(bound < infinity)} | std::int64_t{!(errors[i] <= used)};
  }
  return unclear == 0;
}

/// How many of the numbers are below infinity.
DRIFTBOUND_VECTORISED
std::size_t count_finite(const double* numbers, std::size_t n) {
  std::int64_t finite = 0;
  for (std::size_t i = 0; i < n; ++i) finite += std::int64_t{numbers[i] < infinity};
  return static_cast<std::size_t>(finite);
}

/// How many are rounded to the others.
DRIFTBOUND_VECTORISED
std::int64_t count_rounded(const double* x, const double* y, const Format& format, std::size_t n) {
  std::int64_t same = 0;
  if (format.id == FormatId::fp32) {
    for (std::size_t i = 0; i < n; ++i) same += std::int64_t{static_cast<double>(static_cast<float>(x[i])) == y[i]};
  } else {
    for (std::size_t i = 0; i < n; ++i) same += std::int64_t{rounds_to(x[i], y[i], format)};
  }
  return same;
}

DRIFTBOUND_VECTORISED
double sum_of_squares(const double* numbers, std::size_t n) {
  constexpr std::size_t chains = 4;
  double sums[chains] = {};
  const std::size_t whole = n / chains * chains;
  for (std::size_t i = 0; i < whole; i += chains)
    for (std::size_t c = 0; c < chains; ++c) sums[c] += numbers[i + c] * numbers[i + c];
  for (std::size_t i = whole; i < n; ++i) sums[0] += numbers[i] * numbers[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Whether some error is more than `most` units.
DRIFTBOUND_VECTORISED
bool any_above(const double* errors, const double* units, double most, std::size_t n) {
  std::int64_t above = 0;
  for (std::size_t i = 0; i < n; ++i) above += std::int64_t{errors[i] > most * units[i]};
  return above != 0;
}

/// The largest of numbers that are none below 0, and of `least`.
DRIFTBOUND_VECTORISED
double largest_of(const double* numbers, std::size_t n, double least) {
  constexpr std::size_t chains = 4;
  double largest[chains] = {least, least, least, least};
  const std::size_t whole = n / chains * chains;
  for (std::size_t i = 0; i < whole; i += chains)
    for (std::size_t c = 0; c < chains; ++c) largest[c] = largest[c] < numbers[i + c] ? numbers[i + c] : largest[c];
  for (std::size_t i = whole; i < n; ++i) largest[0] = largest[0] < numbers[i] ? numbers[i] : largest[0];
  return *std::max_element(largest, largest + chains);
}

/// The largest magnitude of numbers.
DRIFTBOUND_VECTORISED
double largest_magnitude(const double* numbers, std::size_t n) {
  double largest = 0.0;
  for (std::size_t i = 0; i < n; ++i) largest = largest < std::abs(numbers[i]) ? std::abs(numbers[i]) : largest;
  return largest;
}

}  // namespace

void ScopeAccumulator::add_bounds(const std::vector<BoundValues>& bounds) {
  if (bounds_.empty()) {
    if (!bounds.empty() && summary_.elements + summary_.non_finite > 0)
      throw InvalidArgument("bounds: a block of samples has bounds where one before had none");
    for (const BoundValues& bound : bounds) {
      BoundState state;
      const BoundResult& from = *bound.description;
      state.summary.kind = from.kind;
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
    if (bounds[i].description->kind != bounds_[i].summary.kind)
      throw InvalidArgument(fmt::format("bounds: a block of samples has '{}' where another has '{}'",
                                        name_of(bounds[i].description->kind), name_of(bounds_[i].summary.kind)));
    bounds_[i].summary.seconds += bounds[i].description->seconds;
    BoundSummary& summary = bounds_[i].summary;
    summary.guarantee = std::max(summary.guarantee, bounds[i].description->guarantee);
    if (bounds[i].description->failure_probability)
      summary.failure_probability =
          add_up(summary.failure_probability.value_or(0.0), *bounds[i].description->failure_probability);
    summary.follows_largest = summary.follows_largest || !bounds[i].description->elements.empty();
    if (summary.not_applicable.empty()) summary.not_applicable = bounds[i].description->not_applicable;
    if (bounds[i].description->guarantee == Guarantee::probabilistic) summary.theorem = bounds[i].description->theorem;
    const std::string& condition = bounds[i].description->condition;
    if (summary.condition.find(condition) == std::string::npos)
      summary.condition += (summary.condition.empty() ? "" : "; ") + condition;
  }
}

void ScopeAccumulator::note_clear(const BoundSummary& bound) {
  Measurements& m = measured_;
  if (bound.must_decide()) std::fill_n(m.is_decided.begin(), m.count, true);
  if (answers_question(bound))
    std::fill_n(m.is_bounded[static_cast<std::size_t>(bound.question)].begin(), m.count, true);
}

std::int64_t ScopeAccumulator::decide(BoundState& state, const BoundValues& values, const Elements& elements) {
  Measurements& m = measured_;
  BoundSummary& summary = state.summary;
  const bool may_say_nothing = !values.description->not_applicable.empty();
  const bool is_measurement = summary.is_measurement();
  const auto is_followed = [&](std::size_t i) {
    const std::vector<std::int64_t>& followed = values.description->elements;
    const std::int64_t element = static_cast<std::int64_t>(i) % elements.per_sample;
    return followed.empty() || std::binary_search(followed.begin(), followed.end(), element);
  };
  std::int64_t silent = 0;
  for (std::size_t j = 0; j < m.count; ++j) {
    if (!m.is_measured[j]) continue;
    const std::size_t i = m.first + j;
    const double bound = values.values[i];
    if (!(bound < infinity) && !is_followed(i)) {
      ++silent;
      m.is_unfollowed[j] = true;
      continue;
    }
    if (may_say_nothing && !(bound < infinity)) {
      ++silent;
      continue;
    }
    const bool is_within = m.at_most[j] <= bound && bound < infinity;
    if (!is_within) count_verdict(summary, elements.computed[i], elements.exact[i], bound);
    if (summary.must_decide() && (is_within || is_decided_within(elements.computed[i], elements.exact[i], bound)))
      m.is_decided[j] = true;
    if (bound < infinity && answers_question(summary))
      m.is_bounded[static_cast<std::size_t>(summary.question)][j] = true;
    summary.max_bound = summary.max_bound < bound ? bound : summary.max_bound;
    const bool is_wide = !is_measurement && bound > m.one_unit[j];
    // no quotient where it changes nothing
    if (!(m.error[j] <= bound * nearly(is_wide ? summary.approach : state.worst_utilisation)))
      note_utilisation(state, j, bound);
  }
  return silent;
}

void ScopeAccumulator::count_ratios(BoundState& state, const BoundValues& values) const {
  const bool may_say_nothing = !values.description->not_applicable.empty() || !values.description->elements.empty();
  for (std::size_t e = 0; e < measured_.errors; ++e) {
    const std::size_t j = measured_.with_error[e];
    const double bound = values.values[measured_.first + j];
    if (may_say_nothing && !(bound < infinity)) continue;
    state.bound_over_error.add(bound / measured_.error[j]);
  }
}

void ScopeAccumulator::note_remainders(BoundSummary& summary, const BoundValues& values) const {
  for (std::size_t j = 0; j < measured_.count; ++j) {
    const std::size_t i = measured_.first + j;
    const double bound = values.values[i];
    if (!measured_.is_measured[j] || !std::isfinite(bound)) continue;
    const double share = bound > 0.0 ? values.remainder[i] / bound : 0.0;
    summary.remainder_share = std::max(summary.remainder_share.value_or(0.0), share);
  }
}

void ScopeAccumulator::note_utilisation(BoundState& state, std::size_t at, double bound) const {
  BoundSummary& summary = state.summary;
  const double utilisation = utilisation_of(measured_.error[at], bound);
  summary.max_utilisation = std::max(summary.max_utilisation, utilisation);
  if (!summary.is_measurement() && bound > measured_.one_unit[at])
    summary.approach = std::max(summary.approach, utilisation);
  const double worst_error = state.new_worst ? measured_.error[*state.new_worst] : state.worst.error;
  const bool is_larger = std::isinf(utilisation) && measured_.error[at] > worst_error;  // of errors above 0
  if (utilisation > state.worst_utilisation || is_larger) {
    state.worst_utilisation = utilisation;
    state.worst.bound = bound;
    state.new_worst = at;
  }
}

DRIFTBOUND_VECTORISED
void ScopeAccumulator::measure(const Elements& elements, std::size_t first, std::size_t count) {
  Measurements& m = measured_;
  m.first = first;
  m.count = count;
  m.number = 0;
  std::fill_n(m.is_decided.begin(), count, false);
  std::fill_n(m.is_unfollowed.begin(), count, false);
  for (auto& is_bounded : m.is_bounded) std::fill_n(is_bounded.begin(), count, false);
  const double* const computed = elements.computed.data() + first;
  const Ball* const exact = elements.exact.data() + first;
  for (std::size_t j = 0; j < count; ++j) {
    const ErrorParts parts = error_parts(computed[j], exact[j]);
    m.error[j] = parts.to_nearest;
    m.at_most[j] = parts.at_most;
    m.middle[j] = exact[j].hi;
    m.radius[j] = exact[j].radius.value();
  }
  // Where the ball reaches the computed value the error is known to be below the radius alone: what is certain is 0.
  for (std::size_t j = 0; j < count; ++j) m.error[j] = m.error[j] <= m.radius[j] ? 0.0 : m.error[j];
  const UnitsInLastPlace unit_at(format(output_format_));
  for (std::size_t j = 0; j < count; ++j) m.one_unit[j] = unit_at(computed[j]);
  if (count_finite(m.at_most.data(), count) == count) {
    std::fill_n(m.is_measured.begin(), count, true);
    m.number = count;
    sum_up_finite(elements);
  } else {
    measure_the_rest(elements);
    sum_up(elements);
  }
  find_errors();
}

/// Where a number, a ball or their distance is not finite.
void ScopeAccumulator::measure_the_rest(const Elements& elements) {
  Measurements& m = measured_;
  for (std::size_t j = 0; j < m.count; ++j) {
    const double computed = elements.computed[m.first + j];
    const Ball& exact = elements.exact[m.first + j];
    m.is_measured[j] = m.at_most[j] < infinity || std::isfinite(computed);
    m.number += m.is_measured[j] ? 1u : 0u;
    if (m.at_most[j] < infinity) continue;
    m.error[j] = m.is_measured[j] && exact.is_finite() ? approx_error_of(computed, exact) : 0.0;
    m.at_most[j] = infinity;
  }
}

/// sum_up() where all numbers and balls are finite: loops without a branch, and elements one by one where one of them
/// is worse than all before.
void ScopeAccumulator::sum_up_finite(const Elements& elements) {
  const Measurements& m = measured_;
  const Format& output = format(output_format_);
  const UnitsInLastPlace unit_at(output);
  Numbers units;
  for (std::size_t j = 0; j < m.count; ++j) units[j] = unit_at(m.middle[j]);
  const bool any_of_more_units = any_above(m.error.data(), units.data(), summary_.max_ulps, m.count);
  for (std::size_t j = 0; any_of_more_units && j < m.count; ++j)
    if (m.error[j] > summary_.max_ulps * units[j]) summary_.max_ulps = m.error[j] / units[j];
  const double largest = largest_of(m.error.data(), m.count, summary_.max_error);
  if (m.count > 0 && (largest > summary_.max_error || !summary_.worst)) {
    const auto at = std::find(m.error.begin(), m.error.begin() + static_cast<std::ptrdiff_t>(m.count), largest);
    summary_.worst = worst_case(static_cast<std::size_t>(at - m.error.begin()), elements);
  }
  summary_.max_error = largest;
  summary_.reference_radius = largest_of(m.radius.data(), m.count, summary_.reference_radius);
  summary_.elements += static_cast<std::int64_t>(m.count);
  summary_.scale = std::max(summary_.scale, largest_magnitude(m.middle.data(), m.count));
  sum_of_squares_ += sum_of_squares(m.error.data(), m.count);
  bit_exact_ += count_rounded(m.middle.data(), elements.computed.data() + m.first, output, m.count);
}

/// Without a branch where errors decide, as those of a Relu's layer are 0 or not at random.
void ScopeAccumulator::find_errors() {
  Measurements& m = measured_;
  m.errors = 0;
  for (std::size_t j = 0; j < m.count; ++j) {
    m.with_error[m.errors] = j;
    m.errors += m.error[j] > 0.0 ? 1u : 0u;
  }
}

void ScopeAccumulator::sum_up(const Elements& elements) {
  const Measurements& m = measured_;
  const Format& output = format(output_format_);
  const UnitsInLastPlace unit_at(output);
  double radius = summary_.reference_radius, ulps = summary_.max_ulps, squares = sum_of_squares_;
  double largest = summary_.max_error;
  bool has_worst = summary_.worst.has_value();
  std::int64_t same = 0;
  for (std::size_t j = 0; j < m.count; ++j) {
    const Ball& exact = elements.exact[m.first + j];
    if (!(m.at_most[j] < infinity) && !(m.is_measured[j] && exact.is_finite())) {
      if (m.is_measured[j]) radius = infinity;
      continue;
    }
    const double error = m.error[j], unit = unit_at(exact.hi);
    radius = std::max(radius, exact.radius.value());
    summary_.scale = std::max(summary_.scale, std::abs(exact.hi));
    if (error > ulps * unit) ulps = error / unit;
    squares += error * error;
    if (rounds_to(exact.hi, elements.computed[m.first + j], output)) ++same;
    if (!(error > largest) && has_worst) continue;
    has_worst = true;
    largest = std::max(largest, error);
    summary_.worst = worst_case(j, elements);
  }
  summary_.elements += static_cast<std::int64_t>(m.number);
  summary_.non_finite += static_cast<std::int64_t>(m.count - m.number);
  summary_.reference_radius = radius;
  summary_.max_ulps = ulps;
  summary_.max_error = largest;
  sum_of_squares_ = squares;
  bit_exact_ += same;
}

WorstCase ScopeAccumulator::worst_case(std::size_t at, const Elements& elements) const {
  WorstCase worst;
  const auto index = static_cast<std::int64_t>(measured_.first + at);
  worst.sample = elements.first_sample + index / elements.per_sample;
  worst.element = index % elements.per_sample;
  worst.computed = elements.computed[measured_.first + at];
  worst.reference = elements.exact[measured_.first + at].hi;
  worst.error = measured_.error[at];
  return worst;
}

void ScopeAccumulator::add(std::span<const double> computed, std::span<const Ball> exact,
                           const std::vector<BoundValues>& bounds, std::int64_t first_sample, std::int64_t per_sample) {
  const Elements elements{computed, exact, first_sample, per_sample};
  add_bounds(bounds);
  for (std::size_t first = 0; first < computed.size(); first += elements_at_once) {
    measure(elements, first, std::min(computed.size() - first, elements_at_once));
    for (std::size_t b = 0; b < bounds.size(); ++b) add(elements, bounds[b], bounds_[b]);
    count_decided(elements);
  }
}

void ScopeAccumulator::add(const Elements& elements, const BoundValues& values, BoundState& state) {
  const Measurements& m = measured_;
  BoundSummary& summary = state.summary;
  const double* const bounds = values.values.data() + m.first;
  const double share = nearly(state.worst_utilisation);
  const bool is_clear =
      m.number == m.count && are_clear(bounds, m.at_most.data(), m.error.data(), m.one_unit.data(),
                                       summary.is_measurement() ? share : nearly(summary.approach), share, m.count);
  const std::int64_t silent = is_clear ? 0 : decide(state, values, elements);
  if (is_clear) note_clear(summary);
  if (is_clear) summary.max_bound = largest_of(bounds, m.count, summary.max_bound);
  count_ratios(state, values);
  summary.without_statement += silent;
  summary.checked += static_cast<std::int64_t>(m.number) - silent;
  if (!values.remainder.empty()) note_remainders(summary, values);
  if (!state.new_worst) return;
  const double worst_bound = state.worst.bound;
  state.worst = worst_case(*state.new_worst, elements);
  state.worst.bound = worst_bound;
  state.new_worst.reset();
}

void ScopeAccumulator::count_decided(const Elements& elements) {
  const Measurements& m = measured_;
  for (const BoundState& state : bounds_)
    if (answers_question(state.summary)) {
      auto& unbounded = summary_.unbounded[static_cast<std::size_t>(state.summary.question)];
      if (!unbounded) unbounded = 0;
    }
  for (std::size_t j = 0; j < m.count; ++j) {
    if (!m.is_measured[j]) continue;
    if (m.is_decided[j]) ++summary_.decided;
    if (m.is_unfollowed[j]) ++summary_.not_followed;
    if (m.is_unfollowed[j] && !m.is_decided[j]) ++summary_.not_followed_undecided;
    if (!m.is_decided[j] && !m.is_unfollowed[j] && !summary_.first_open) summary_.first_open = worst_case(j, elements);
    for (std::size_t question = 0; question < summary_.unbounded.size(); ++question) {
      const bool is_asked = static_cast<Question>(question) != Question::any_run || !m.is_unfollowed[j];
      if (summary_.unbounded[question] && is_asked && !m.is_bounded[question][j]) ++*summary_.unbounded[question];
    }
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
    state.summary.median_bound_over_error = state.bound_over_error.median();
    if (state.summary.gives_verdict() && !state.summary.is_measurement() && state.worst_utilisation > highest) {
      highest = state.worst_utilisation;
      if (highest > 0.0) summary_.worst = state.worst;
    }
    if (state.worst_utilisation > 0.0) state.summary.worst = state.worst;
    summary_.bounds.push_back(std::move(state.summary));
  }
  return std::move(summary_);
}

}  // namespace driftbound::analysis
