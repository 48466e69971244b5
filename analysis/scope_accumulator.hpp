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
    std::vector<double> bound_over_error;
    double worst_utilisation = -1.0;
    std::optional<std::size_t> new_worst;  ///< of the block, among its measured elements
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
  void measure(std::span<const double> computed, std::span<const Ball> exact, std::int64_t first_sample,
               std::int64_t per_sample);
  void judge(BoundState& state, const BoundValues& bound, std::span<const Ball> exact);
  static void decide(BoundSummary& summary, const Measured& element, const Ball& exact, double bound);
  WorstCase worst_case(const Measured& element, std::span<const Ball> exact, std::int64_t first_sample,
                       std::int64_t per_sample) const;

  FormatId output_format_ = FormatId::fp32;
  ScopeSummary summary_;
  std::vector<BoundState> bounds_;
  double sum_of_squares_ = 0.0;
  std::int64_t bit_exact_ = 0;
  std::vector<Measured> measured_;  ///< of one block
};

/// Median of the values (the upper one of an even count), which are reordered.
double median(std::vector<double>& values);
/// The p-quantile, 0 <= p <= 1 (nearest rank), which are reordered.
double quantile(std::vector<double>& values, double p);

}  // namespace driftbound::analysis
