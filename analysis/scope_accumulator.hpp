#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/comparison.hpp"
#include "analysis/histogram.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {

/// A bound's values for the elements of one block.
struct BoundValues {
  const BoundResult* description = nullptr;
  std::span<const double> values;
  std::span<const double> remainder;  ///< part of the values; may be empty
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
    LogHistogram bound_over_error;  ///< of elements with an error
    double worst_utilisation = -1.0;
    std::optional<std::size_t> new_worst;  ///< among the measured elements
    WorstCase worst;
  };
  void add_bounds(const std::vector<BoundValues>& bounds);
  /// Some elements one after the other, of which those that a bound can be held against are measured.
  static constexpr std::size_t elements_at_once = 512;  // stay near the processor while bounds are held against them
  using Numbers = std::array<double, elements_at_once>;
  struct Measurements {
    std::size_t first = 0, count = 0;
    Numbers error{}, at_most{}, one_unit{};
    Numbers middle{}, radius{};  ///< of the balls
    std::array<bool, elements_at_once> is_measured{};
    std::array<bool, elements_at_once> is_decided{};                 ///< by some bound
    std::array<bool, elements_at_once> is_unfollowed{};              ///< by some bound of a large output
    std::array<std::array<bool, elements_at_once>, 2> is_bounded{};  ///< by Question
    std::size_t number = 0;                                          ///< measured
    std::array<std::size_t, elements_at_once> with_error{};
    std::size_t errors = 0;  ///< numbers in `with_error`
  };
  /// What add() was given.
  struct Elements {
    std::span<const double> computed;
    std::span<const Ball> exact;
    std::int64_t first_sample = 0, per_sample = 1;
  };
  void measure(const Elements& elements, std::size_t first, std::size_t count);
  void measure_the_rest(const Elements& elements);
  void sum_up(const Elements& elements);
  void sum_up_finite(const Elements& elements);
  void find_errors();
  void add(const Elements& elements, const BoundValues& bound, BoundState& state);
  /// Element by element; returns of how many the bound says nothing.
  std::int64_t decide(BoundState& state, const BoundValues& bound, const Elements& elements);
  /// Notes that the bound decides all measured elements.
  void note_clear(const BoundSummary& bound);
  void count_decided(const Elements& elements);
  void count_ratios(BoundState& state, const BoundValues& bound) const;
  void note_utilisation(BoundState& state, std::size_t at, double bound) const;
  void note_remainders(BoundSummary& summary, const BoundValues& values) const;
  WorstCase worst_case(std::size_t at, const Elements& elements) const;

  FormatId output_format_ = FormatId::fp32;
  ScopeSummary summary_;
  std::vector<BoundState> bounds_;
  double sum_of_squares_ = 0.0;
  std::int64_t bit_exact_ = 0;
  Measurements measured_;
};

}  // namespace driftbound::analysis
