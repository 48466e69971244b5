#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/trace/run_alignment.hpp"

namespace driftbound::analysis {

/// What is known of the numbers that choices are made of, all of one shape.
struct KnownNumbers {
  Tensor<Ball> exact;      ///< of the exact network
  Tensor<double> any_run;  ///< what any run of the arithmetic is off by at most (T-71); infinite: not known
  Tensor<double>
      six_sigmas;  ///< six standard deviations of sums in random order (T-75), an estimate; infinite: not known

  /// Appends a block of samples. `bounds`: of the layer that they are.
  void add(const Tensor<Ball>& reference, const LayerBounds& bounds);
};

/// Whether runs may choose otherwise in a row.
enum class MayFlip {
  cannot,  ///< no run of the arithmetics chooses otherwise than the exact network (T-141): proven, or conditional
  not_by_chance,  ///< the winner is ahead by more than six standard deviations: an estimate
  may,
  unknown,  ///< the exact numbers are not known
};
std::string_view name_of(MayFlip may);

struct NumberOfClass {
  std::int64_t index = 0;
  double number = 0.0;
};

/// What two runs choose in one row: the class with the largest number, of equal ones the first.
struct RowDecision {
  std::int64_t row = 0, winner_a = 0, winner_b = 0;
  double gap_a = 0.0, gap_b = 0.0;  ///< winner less runner-up, in each run
  MayFlip may_flip = MayFlip::unknown;
  std::vector<NumberOfClass> largest_a, largest_b;  ///< the 8 largest of each run, in order; of equal ones the first
};

/// The choices of two runs among the numbers of each row (the last axis) of a value: tokens by their logits.
struct Decisions {
  std::string name;  ///< of the value, in the first run
  std::int64_t rows = 0, classes = 0;
  std::int64_t flips = 0;  ///< rows in which the runs choose otherwise
  std::int64_t ties = 0;   ///< rows whose largest number occurs twice, in one of the runs
  std::int64_t top = 0;    ///< size of the sets of largest numbers; 0: there are no more classes
  std::int64_t other_sets =
      0;  ///< rows whose `top` largest numbers are of other classes; of equal ones the first count
  /// Rows in which both runs choose what the exact network does, proven: its winner lies above all others. Empty: the exact
  /// numbers are not known.
  std::optional<std::int64_t> certain;
  std::map<MayFlip, std::int64_t> by_flip;  ///< rows
  /// Flips that independent normal differences of the size seen would make: sum of Phi(-gap / (sigma sqrt 2)), sigma the
  /// root mean square difference of the value. An estimate.
  double estimate_of_flips = 0.0;
  /// Jensen-Shannon divergence of the softmax of both rows, in nats; and the largest |log p_b - log p_a| of the first run's
  /// winner. Estimates in double.
  double mean_divergence = 0.0, largest_divergence = 0.0, largest_log_ratio = 0.0;
  /// What any two runs have there at most, over all rows (T-141). Empty: that is not known.
  std::optional<double> log_ratio_at_most;
  std::vector<RowDecision> flipped;  ///< the first 8
  std::vector<RowDecision> nearest;  ///< the 8 rows with the smallest gaps of the first run
};

/// `a`, `b`:  what is known of each run's numbers, or null; the exact numbers are those of `a`
/// `top`:     size of the sets of largest numbers that are compared
/// Shapes:    of `a` and `b` as the numbers
/// Guarantee: `certain` is proven, as are rows that cannot flip and `log_ratio_at_most` where the bounds of `any_run` are;
///            the other numbers are measured in double
/// Source:    docs/theory.md T-141
Decisions decisions_of(std::string name, const AlignedNumbers& numbers, const KnownNumbers* a, const KnownNumbers* b,
                       std::int64_t top);

}  // namespace driftbound::analysis
