#pragma once

#include <array>
#include <cstddef>
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

/// Which places of a sequence are kept for a median: all of them and, once there are 2^14, those whose multiples of the
/// golden ratio have a fraction below 1/2, 1/4, ...: in sequences with a period, as layers are row by row, every phase of
/// it is kept about as often.
class SampledPlaces {
public:
  static constexpr std::size_t most = std::size_t{1} << 14;

  /// Whether the next place is kept.
  bool take() {
    const std::uint64_t fraction = next_++ * golden_ratio;
    if (fraction > largest_) return false;
    fractions_.push_back(fraction);
    return true;
  }
  bool is_full() const { return fractions_.size() >= most; }
  /// Leaves half of the places out: of those kept before, which ones are left.
  std::vector<std::size_t> halve();

private:
  static constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15u;  // its fraction times 2^64
  std::vector<std::uint64_t> fractions_;                              ///< of places kept
  std::uint64_t next_ = 0, largest_ = ~std::uint64_t{0};
};

/// Of numbers, those at the places that are left.
void keep_places(std::vector<double>& numbers, const std::vector<std::size_t>& left);

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
    std::vector<double> bound_over_error;  ///< at the places kept; negative where the bound says nothing
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
    std::vector<std::size_t> sampled;                                ///< of those with an error, for medians
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
  void sample_places();
  void add(const Elements& elements, const BoundValues& bound, BoundState& state);
  /// Element by element; returns of how many the bound says nothing.
  std::int64_t decide(BoundState& state, const BoundValues& bound, const Elements& elements);
  /// Notes that the bound decides all measured elements.
  void note_clear(const BoundSummary& bound);
  void count_decided(const Elements& elements);
  void sample(BoundState& state, const BoundValues& bound) const;
  void note_utilisation(BoundState& state, std::size_t at, double bound) const;
  void note_remainders(BoundSummary& summary, const BoundValues& values) const;
  WorstCase worst_case(std::size_t at, const Elements& elements) const;
  void leave_out_samples();

  FormatId output_format_ = FormatId::fp32;
  ScopeSummary summary_;
  std::vector<BoundState> bounds_;
  double sum_of_squares_ = 0.0;
  std::int64_t bit_exact_ = 0;
  Measurements measured_;
  SampledPlaces places_;  ///< among the elements with an error
};

/// Median of the values (the upper one of an even count), which are reordered.
double median(std::vector<double>& values);
/// The p-quantile, 0 <= p <= 1 (nearest rank), which are reordered.
double quantile(std::vector<double>& values, double p);

}  // namespace driftbound::analysis
