#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/drift.hpp"

namespace driftbound::analysis {

/// What is known of a value of two runs beside its numbers.
struct OpEvidence {
  const LayerSummary *a = nullptr, *b = nullptr;  ///< of each run alone; null: not judged
  std::string other_numbers;                      ///< which numbers from outside differ that it reads; empty: none
  std::string rounded_numbers;                    ///< which differ by a rounding alone that no type declares
  std::string declared_rounding;                  ///< which differ by a rounding to the type of one run
  std::string other_function;                     ///< how the runs compute it otherwise; empty: that is not known
  bool reads_rounded_parts = false;  ///< declared_rounding is of weights that one run has as parts of the other one's
  std::string unknown_numbers;       ///< which may differ, as they are not recorded alike; empty: none
  std::string complaint_as_b;        ///< of one run's numbers as those of the other run's op
  std::string answers_to_rows;       ///< how the numbers show that rows answer to rows of one run alone; empty: not
  std::string answers_to_positions;  ///< the same of positions
  bool follows_choice = false;       ///< what it reads follows from another choice in the second run
  bool is_drawn = false;             ///< both runs draw its numbers, or what they follow from, at random
  std::string unmatched_source;      ///< from outside, which it follows from in one run alone
  bool reads_the_same_sources = false;  ///< all numbers from outside that both runs have are the same
  bool follows_other_function = false;  ///< it reads what the runs compute by other functions
  bool reads_not_finite = false;        ///< other_numbers says that they are not finite in one run alone
  bool masks_what_differs = false;      ///< it masks scores, and they are no further apart behind it than before
  bool are_other_steps = false;         ///< the runs compute the same positions in different steps
  bool is_for_choices = false;          ///< nothing but choices follows from it
  bool is_unrelated = false;            ///< both runs recorded it, but its rows are not found in both
  bool is_as_a = false;                 ///< DriftOp::is_as_a
  bool is_choice = false;               ///< it is made of integers
  bool reads_alone = false;             ///< it reads numbers that one run alone has
  bool is_of_truths = false;            ///< it is made of truth values, as a mask is
  std::string mixes_rows;  ///< what it reads that has no rows, and is made of rows that the runs do not have in common
  bool is_same_function = false;     ///< both exact networks give the same from each run's inputs on
  bool is_same_op = false;           ///< both runs compute it by the same op, from the same values
  bool is_norm = false;              ///< a layer, RMS or batch norm
  bool adds_and_multiplies = false;  ///< sums and products alone, whose errors have no mean
};

/// What constants that a run rounds to float32 may change, relative.
inline constexpr double rounded_constants = 0x1p-21;

/// Exact values of larger results are not kept.
inline constexpr std::size_t most_exact = std::size_t{1} << 22;

/// Whether values are no further apart than both are off from a number that they have in common, as measured.
/// Source:    docs/theory.md T-137
bool is_within_errors(const RunDifference& difference, double error_a, double error_b);

/// Whether an op of this kind (AlignedResult::kind, or an op's name) is made of sums and products alone. Errors of
/// functions have a mean, which differs from one library to another.
bool adds_and_multiplies(std::string_view kind);
/// Adds an op, and notes whether the runs depart there and how far it amplifies what the `operands` differ by.
void add_op(DriftOp op, const std::vector<const RunDifference*>& operands, RunsDrift& drift);
/// Sets what a report of each run alone says of an op.
void take_reports(DriftOp& op, const LayerSummary* a, const LayerSummary* b);

/// What nobody declared of two runs that were judged alone, each sentence once. `of_a`, `of_b`: as undeclared_kernel() has it.
std::vector<std::string> undeclared_of(std::string of_a, std::string of_b);
/// Sets the verdict of an op and the reason. `ops`: compared in all.
void settle(DriftOp& op, const OpEvidence& evidence, std::size_t ops);
/// What is wrong with a layer that is beyond a bound; empty: nothing.
std::string complaint_of(const LayerSummary& layer);
/// What any two runs differ by at most in an output of this name in each run's report, by bounds of this kind; empty: they
/// do not bound every element.
std::optional<double> any_runs_apart(const Comparison& a, const std::string& name_a, const Comparison& b,
                                     const std::string& name_b, BoundKind kind = BoundKind::adjoint_any_order);
/// Adds the choices of both runs, and the structure of what they differ by, as they are and after a cast to bfloat16.
/// `a`, `b`:  as decisions_of() has them
void add_rows(const std::string& name, const AlignedNumbers& numbers, const KnownNumbers* a, const KnownNumbers* b,
              const AskedDecisions& asked, RunsDrift& drift);
/// What the evaluation of one sample takes: multiplications, and numbers on the way.
struct SampleWork {
  double steps = 1.0, numbers = 1.0;
};
SampleWork work_of(const Graph& graph, const Trace& trace);

/// For how many elements of an output bounds for any run are computed: all of a sample, up to 4096, where that takes about
/// a second and 256 MB, or 4 GB where it is asked for; else few.
std::int64_t most_bounded_elements(const Graph& graph, const Trace& trace, bool asks_for_all);
/// Sets the verdict of the whole, and the op or the result without a counterpart that it hangs on.
void find_culprit(RunsDrift& drift);

}  // namespace driftbound::analysis
