#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/drift.hpp"
#include "analysis/drift_verdict.hpp"
#include "analysis/run_values.hpp"

namespace driftbound::analysis {

/// Compares two aligned runs: values from outside, values that both computed, choices, one run's numbers as a run of the
/// other one's network; and settles the verdict of every op.
/// Source:    docs/theory.md T-137
class RunComparer {
public:
  RunComparer(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options, RunAlignment alignment)
      : a_(a),
        b_(b),
        run_a_(*a.run),
        run_b_(*b.run),
        options_(options),
        alignment_(std::move(alignment)),
        layers_a_(a),
        layers_b_(b) {}

  /// Throws:    what compare_runs() throws
  RunsDrift compare() &&;

private:
  // ---- values of both runs, and of one of them (run_comparer.cpp)

  void compare_values();
  /// Whether both runs recorded the value, and it may have the rows of both, but none of its numbers are near.
  bool is_unrelated(const AlignedResult& one) const;
  bool reads_the_same(const AlignedResult& one) const;
  void compare_decisions();
  /// Where the runs read a text in different steps, by row of a value of run a: the token of the text behind the row's
  /// position, which a sampler chose there; -1: the text ends. Empty: it is not known which rows these are.
  std::vector<std::int64_t> next_tokens(const AlignedResult& one, const Shape& shape) const;
  /// The row that the first token that differs was chosen from; empty where the value does not have it.
  std::optional<std::int64_t> row_before_parting(const AlignedResult& one, const Shape& shape) const;
  void name_what_is_alone();
  /// Whether a run may have a result of this record alone because it goes on longer, with other tokens or more of them.
  bool is_of_longer_run(const Record& record) const;
  /// What a run's own report finds in ops that are not compared, such as casts.
  void add_others(const JudgedRun& run, std::string_view which);

  // ---- values from outside, and sequences that part (run_comparer_sources.cpp)

  /// Notes what follows from values from outside that the other run has not. Weights that one run joins are in both.
  void note_unmatched();
  /// The results of a run that follow from these values by way of results that it has alone.
  std::set<std::string> following_up_to_both(const RecordedRun& run, std::set<std::string> ids, bool is_a) const;
  /// `only_a`, `only_b`: values from outside that one run has alone
  /// Throws:    InvalidArgument where no weight is in both runs, and one has another shape of the same name in two axes or more
  void require_same_weights(const std::vector<std::string>& only_a, const std::vector<std::string>& only_b) const;
  void compare_sources();
  /// Throws:    InvalidArgument where the numbers have nothing to do with each other
  void require_same_input(const AlignedSource& source, const RunDifference& difference,
                          const AlignedNumbers& numbers) const;
  std::size_t place_of(const AlignedSource& source) const;
  std::string reader_of(std::size_t source) const;
  /// Throws:    InvalidArgument where texts have so little in common that they are not the same ones
  void require_common_positions() const;
  /// Where sequences part whose first positions are the same.
  void find_parting();
  /// A run that goes on with its own tokens reads one after the other from outside: those behind the first one that
  /// differs follow from other choices.
  bool is_later_token(std::size_t source) const;
  /// Integers that the runs read in a later step, as which rows have ended, may follow from other tokens as well.
  bool may_follow_tokens(std::size_t source) const;
  /// Throws:    InvalidArgument where the runs do not part, and such integers differ
  void require_parting() const;
  void note_parting(const std::string& name, const AlignedNumbers& numbers, bool is_drawn);
  bool follows_choice(const AlignedResult& one) const;
  bool reads_parted(const AlignedResult& one) const;
  /// Floats that both runs draw at random, and what follows from them.
  bool reads_drawn(const AlignedResult& one) const;
  /// Those of which nothing but choices follows. What nothing reads is a result of the run.
  void find_numbers_for_choices();

  // ---- one run's numbers as a run of the other one's network (run_comparer_networks.cpp)

  /// Finds the scores: what nothing but softmax and attention reads, and nothing but masks on the way to them. Where both
  /// runs mask an element of them, by whatever large negative number, its numbers are not compared, and one run's number
  /// is held to be the other one's: each softmax is compared, and shows whether it makes a difference.
  void find_scores();
  /// Whether an op masks scores, and its results are no further apart than the scores that it reads and the errors of both
  /// runs there: then both runs mask the same elements of those that both have.
  bool masks_what_differs(std::size_t i) const;
  /// The numbers of one run are judged as a run of the other one's network, which must have no other rows: the first
  /// run's in that of the second; the other way round where only this is possible, and for ops that this leaves open.
  void judge_in_network();
  /// Whether an op is computed by other ops, and not held against the other run's network.
  bool is_one_open() const;
  bool is_same_op(std::size_t i) const;
  /// Judges the numbers of one run as those of the network of the other one: of the second run's, or (`as_a`) the first's.
  /// Returns:   why not; empty: they were judged
  std::string judge_as(bool as_a);
  /// Returns:   whether the exact networks are to be compared: it is violated, or the runs compute it by other ways
  bool take_status(std::size_t i, const LayerSummary& layer);
  /// By another way to the same numbers a run may round more than the other run's ops do. Between the values of both runs
  /// the exact networks then give the same, and each run's own bounds say whether it computed that. Where they do not give
  /// the same, the runs compute other functions, however much rounding would explain (T-137).
  void compare_exact_networks(const std::set<std::size_t>& doubtful, const RecordedRun& in, const NumbersOf& numbers,
                              bool as_a);
  /// What a weight differs by that one run has as several; empty: none does.
  std::string text_of_joined_source() const;
  /// The position in the alignment of a result of the first run (`in_a`) or the second.
  std::optional<std::size_t> position_of(RecordedResult at, bool in_a) const;
  /// Hands over the network of a run with numbers in the place of its results.
  /// Returns:   why not; empty: it was handed over
  std::string with_chain(const RecordedRun& in, const NumbersOf& numbers, const JudgedRun& numbers_of,
                         const std::function<void(const RecordChain&)>& take) const;
  JudgeOptions options_in(const RecordChain& chain) const;

  // ---- verdicts (run_comparer_verdicts.cpp)

  void settle_op(std::size_t i);
  /// Whether the exact networks of both runs, each from its own inputs on, give the same value.
  /// Source:    docs/theory.md T-137
  bool is_same_function(std::size_t i) const;
  /// What shows that the same rows or positions do not follow from the same numbers alone, or by another function: they are
  /// further apart than both runs are from their exact values, or from the exact op on the same operands. Empty: nothing, or
  /// an operand does already.
  /// Source:    docs/theory.md T-137
  std::string answers_to_others(std::size_t i, const OpEvidence& evidence);
  /// The first sum, product or extreme of those that an op reads, directly or by way of others, which has no rows to be
  /// compared by, where the runs have other rows or others in another order; empty: there is none.
  std::string what_mixes_rows(std::size_t i) const;
  bool reads_drifted(const AlignedResult& one) const;
  /// The value from outside, of floating-point numbers that the other run has not, which a result of either run follows from.
  std::string unmatched_source_of(const AlignedResult& one) const;
  /// Notes what follows from results that are not judged and whose numbers may differ: errors from the input on then begin
  /// at other numbers in each run. Results that are made of no numbers are constants.
  void note_unjudged();
  /// Results of a run that no bound decides.
  static std::vector<std::string> open_results(const RecordedRun& run, const LayersOf& layers);
  bool follows_open(const AlignedResult& one) const;
  bool follows_unjudged(const AlignedResult& one) const;
  /// The first of the values from outside that an op reads whose numbers differ and that is such a one.
  const DriftSource* differing_source_of(const AlignedResult& one,
                                         const std::function<bool(const DriftSource&)>& is) const;
  std::string other_source_of(const AlignedResult& one) const;
  std::string rounded_source_of(const AlignedResult& one, bool is_declared) const;
  std::string unknown_source_of(const AlignedResult& one) const;

  const JudgedRun &a_, &b_;
  const RecordedRun &run_a_, &run_b_;
  const DriftOptions& options_;
  const RunAlignment alignment_;
  const LayersOf layers_a_, layers_b_;
  RunsDrift drift_;
  std::array<std::map<RecordedResult, std::size_t>, 2> positions_;  ///< in the alignment, by result of each run
  std::set<std::string> from_rounded_a_, from_rounded_b_;  ///< what reads parts of weights that one run has rounded
  std::map<std::size_t, std::size_t> other_sources_;       ///< by position in the alignment: that in the drift
  std::set<std::size_t> scores_, score_sources_;  ///< by position in the alignment: those that find_scores finds
  std::set<std::size_t> other_masks_;             ///< scores masked by -∞ in the run that the other is judged as
  std::set<std::size_t> unknown_sources_;         ///< by position in the alignment: they may differ
  std::set<std::size_t> parted_sources_;          ///< by position in the alignment: tokens behind others that differ
  std::set<std::size_t> follow_choice_;           ///< ops that choose otherwise, and what follows from them
  /// By id: which of the values from outside that the other run has not a value of a run follows from.
  std::map<std::string, std::string> from_unmatched_a_, from_unmatched_b_;
  std::map<std::string, std::string> from_unjudged_a_, from_unjudged_b_;  ///< the same of results that are not judged
  std::map<std::string, std::string> from_open_a_, from_open_b_;          ///< and of those that no bound decides
  std::set<std::size_t> drawn_;                    ///< ops whose numbers both runs draw, and what follows from them
  std::set<std::size_t> for_choices_;              ///< of these, those that nothing but choices follows from
  bool parts_at_source_ = false;                   ///< DriftParting is of tokens that a step reads from outside
  std::set<std::size_t> unrelated_;                ///< ops whose rows are not found in both runs
  std::set<std::size_t> answers_;                  ///< ops that answer to others, and what follows from them
  std::map<std::size_t, std::string> complaints_;  ///< of one run as one of the other's network, by op
};

}  // namespace driftbound::analysis
