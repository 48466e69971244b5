#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/num/ball.hpp"
#include "driftbound/trace/run_alignment.hpp"

namespace driftbound::analysis {

/// What two runs choose in one row: the class with the largest number, of equal ones the first.
struct RowDecision {
  std::int64_t row = 0, winner_a = 0, winner_b = 0;
  double gap_a = 0.0, gap_b = 0.0;  ///< winner less runner-up, in each run
};

/// The choices of two runs among the numbers of each row (the last axis) of a value: tokens by their logits.
struct Decisions {
  std::string name;  ///< of the value, in the first run
  std::int64_t rows = 0, classes = 0;
  std::int64_t flips = 0;  ///< rows in which the runs choose otherwise
  std::int64_t ties = 0;   ///< rows whose largest number occurs twice, in one of the runs
  /// Rows in which both runs choose what the exact network does, proven: its winner lies above all others. Empty: the exact
  /// numbers are not known.
  std::optional<std::int64_t> certain;
  /// Flips that independent normal differences of the size seen would make: sum of Phi(-gap / (sigma sqrt 2)), sigma the
  /// root mean square difference of the value. An estimate.
  double estimate_of_flips = 0.0;
  /// Jensen-Shannon divergence of the softmax of both rows, in nats; and the largest |log p_b - log p_a| of the first run's
  /// winner. Estimates in double.
  double mean_divergence = 0.0, largest_divergence = 0.0, largest_log_ratio = 0.0;
  std::vector<RowDecision> flipped;  ///< the first 8
  std::vector<RowDecision> nearest;  ///< the 8 rows with the smallest gaps of the first run
};

/// Shapes:    `exact`: as the numbers, or null
/// Guarantee: `certain` is proven; the other numbers are measured in double
Decisions decisions_of(std::string name, const AlignedNumbers& numbers, const Tensor<Ball>* exact);

}  // namespace driftbound::analysis
