#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/comparison.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {

/// A bound's values for the elements of one block.
struct BoundValues {
  const BoundResult* description = nullptr;
  std::span<const double> values;
  std::span<const double> remainder;  ///< part of the values; may be empty
};

/// Numbers for a median: all of them, or beyond 2^16 those at every 2nd, 4th, ... place.
class SampledValues {
public:
  template <class Number>
  void add(const Number& number) {
    if (++skipped_ < stride_) return;
    skipped_ = 0;
    values_.push_back(number());
    if (values_.size() == most) halve();
  }
  std::vector<double>& values() { return values_; }

private:
  static constexpr std::size_t most = std::size_t{1} << 17;
  void halve();
  std::vector<double> values_;
  std::size_t stride_ = 1, skipped_ = 0;
};

/// Sums up one tensor in one scope (local or accumulated) over blocks of samples.
class ScopeAccumulator {
public:
  ScopeAccumulator() = default;
  explicit ScopeAccumulator(FormatId output_format) : output_format_(output_format) {}

  /// Elements are samples * per_sample values; element i belongs to sample first_sample + i / per_sample.
  void add(std::span<const double> computed, std::span<const Ball> exact, const std::vector<BoundValues>& bounds,
           std::int64_t first_sample, std::int64_t per_sample);
  ScopeSummary finish();

private:
  struct BoundState {
    BoundSummary summary;
    SampledValues bound_over_error;
    double worst_utilisation = -1.0;
    std::optional<std::size_t> new_worst;  ///< among the measured elements
    WorstCase worst;
  };
  void add_bounds(const std::vector<BoundValues>& bounds);
  /// One element that a bound can be held against.
  struct Measured {
    std::size_t index = 0;
    double computed = 0.0;
    double error = 0.0;     ///< to nearest
    double at_most = 0.0;   ///< upper bound of it and of the reference's radius
    double one_unit = 0.0;  ///< in the last place of `computed`
  };
  /// What add() was given.
  struct Elements {
    std::span<const double> computed;
    std::span<const Ball> exact;
    std::int64_t first_sample = 0, per_sample = 1;
  };
  void measure(const Elements& elements, std::size_t first, std::size_t last);
  void add(const Elements& elements, const BoundValues& bound, BoundState& state);
  void judge(BoundState& state, const BoundValues& bound, std::span<const Ball> exact);
  void note_utilisation(BoundState& state, std::size_t at, double bound) const;
  void note_remainders(BoundSummary& summary, const BoundValues& values) const;
  static void decide(BoundSummary& summary, const Measured& element, const Ball& exact, double bound);
  static WorstCase worst_case(const Measured& element, const Elements& elements);

  FormatId output_format_ = FormatId::fp32;
  ScopeSummary summary_;
  std::vector<BoundState> bounds_;
  double sum_of_squares_ = 0.0;
  std::int64_t bit_exact_ = 0;
  std::vector<Measured> measured_;  ///< of some elements
};

/// Median of the values (the upper one of an even count), which are reordered.
double median(std::vector<double>& values);
/// The p-quantile, 0 <= p <= 1 (nearest rank), which are reordered.
double quantile(std::vector<double>& values, double p);

}  // namespace driftbound::analysis
