#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/reference/reference.hpp"
#include "driftbound/trace/run_alignment.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

/// A stretch of elements of a tensor.
StoredTensor stretch_of(const StoredTensor& tensor, std::size_t first, std::size_t count);

/// What is known of the numbers that choices are made of, all of one shape.
struct KnownNumbers {
  Tensor<Ball> exact;      ///< of the exact network
  Tensor<double> any_run;  ///< what any run of the arithmetic is off by at most (T-71); infinite: not known
  Tensor<double>
      six_sigmas;  ///< six standard deviations of sums in random order (T-75), an estimate; infinite: not known

  /// What the number of a row's winner is ahead of another class at least, in any run (T-141).
  struct Gap {
    std::size_t winner = 0;  ///< element
    double least = 0.0;
  };
  std::map<std::size_t, Gap> gaps;  ///< by element of the other class, where they were asked for
  bool are_followed = false;        ///< bounds of any run were computed for every number, though they may be infinite
  bool has_rounded_shadow = false;  ///< operands or results are rounded to a narrow format, and T-76 applies

  /// Appends the samples [first, first + count) of an output, which a node computes. Bounds how far the winners of the
  /// recorded run are ahead of other classes in any run, too: in rows where bounds of single numbers leave the choice open
  /// and this may decide it, for as many pairs of elements as a sample has elements.
  /// `trace`: all samples; `output`: position in Graph::outputs; `reference` and `bounds`: from the input on, of these
  /// samples.
  /// Source:    docs/theory.md T-71, T-76, T-141
  void add(const Graph& graph, const Trace& trace, std::size_t output, const Reference& reference, const Bounds& bounds,
           std::int64_t first, std::int64_t count, int threads);

private:
  void add_numbers(const Tensor<Ball>& reference, const LayerBounds& bounds);
  /// `computed`: recorded numbers of the samples that were added last; `samples`: these samples as one evaluation, asked
  /// for where a bound is computed; `exact_layers`: of the exact network.
  void add_gaps(const Graph& graph, std::size_t output, const std::vector<double>& computed, std::size_t of_these,
                const std::vector<Tensor<Ball>>& exact_layers, const std::function<Trace()>& samples, int threads);
};

/// Whether runs may choose otherwise in a row.
enum class MayFlip {
  cannot,         ///< all runs of both arithmetics choose the same class (T-141): proven, or conditional
  not_by_chance,  ///< the winner is ahead by more than six standard deviations: an estimate
  may,
  unknown,  ///< there is no bound and no estimate of this row, and the runs do not differ
};
std::string_view name_of(MayFlip may);

struct NumberOfClass {
  std::int64_t index = 0;
  double number = 0.0;
};

/// What two runs choose in one row: the class with the largest number, of equal ones the first.
struct RowDecision {
  std::int64_t row = 0;  ///< in the first run's value
  std::int64_t winner_a = 0, winner_b = 0;
  std::int64_t runner_up = 0;       ///< of the first run
  double gap_a = 0.0, gap_b = 0.0;  ///< winner less runner-up, in each run
  MayFlip may_flip = MayFlip::unknown;
  /// Of the first run's winner less its runner-up, by run: the certified error, what any run is off by at most, and six
  /// standard deviations (an estimate). Empty: not known.
  std::array<std::optional<double>, 2> errors, any_run, six_sigmas;
  std::int64_t chosen = 0;  ///< the class whose log-probability follows: the one given, else the first run's winner
  std::array<double, 2> log_probability = {};  ///< by run
  std::array<std::optional<double>, 2>
      log_errors;                           ///< certified, by run (T-141). Empty: the exact numbers are not known
  std::optional<double> log_ratio_at_most;  ///< what any two runs have there at most (T-141)
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
  std::int64_t without_bounds = 0;          ///< rows whose winner has no finite bound of any run
  std::string why_no_bounds;                ///< of these rows; empty: there are none
  double estimate_of_flips = 0.0;           ///< flips that independent differences of the size seen would make (T-181)
  bool has_chosen = false;                  ///< the classes chosen were given
  /// Jensen-Shannon divergence of the softmax of both rows, in nats; and the largest |log p_b - log p_a| of the chosen
  /// class. Estimates in double.
  double mean_divergence = 0.0, largest_divergence = 0.0, largest_log_ratio = 0.0;
  /// What any two runs have there at most, over all rows (T-141). Empty: that is not known.
  std::optional<double> log_ratio_at_most;
  std::vector<RowDecision> flipped;  ///< the first 8
  std::vector<RowDecision> nearest;  ///< the 8 rows with the smallest gaps of the first run
  std::optional<RowDecision> at;     ///< the row that was asked for
  /// The first rows in order, at most 16,384, without their largest numbers. Rows with NaN are left out.
  std::vector<RowDecision> by_row;
};

/// What is asked of the choices of two runs.
struct AskedDecisions {
  std::int64_t top = 0;                            ///< size of the sets of largest numbers that are compared
  std::optional<std::int64_t> row = std::nullopt;  ///< of the first run's value, to be listed where it is compared
  /// By row of the first run's value: the class whose log-probability is compared; -1, or empty: the first run's winner.
  std::span<const std::int64_t> chosen = {};
};

/// `a`, `b`:  what is known of each run's numbers, or null; the exact numbers are those of `a`
/// Throws:    InvalidArgument for a chosen class that is none of the value's
/// Shapes:    of `a` and `b` as the numbers
/// Guarantee: `certain` is proven, as are rows that cannot flip and `log_ratio_at_most` where the bounds of `any_run` are;
///            the other numbers are measured in double
/// Source:    docs/theory.md T-141, T-181
Decisions decisions_of(std::string name, const AlignedNumbers& numbers, const KnownNumbers* a, const KnownNumbers* b,
                       const AskedDecisions& asked);

}  // namespace driftbound::analysis
