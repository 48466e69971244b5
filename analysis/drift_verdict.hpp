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
  std::string rounded_numbers;                    ///< which differ by a rounding alone
  std::string other_function;                     ///< how the runs compute it otherwise; empty: that is not known
  std::string unknown_numbers;                    ///< which may differ, as they are not recorded alike; empty: none
  std::string complaint_as_b;                     ///< of the first run's numbers as those of the second run's op
  bool is_choice = false;                         ///< it is made of integers
  bool is_same_op = false;                        ///< both runs compute it by the same op, from the same values
  bool adds_and_multiplies = false;               ///< sums and products alone, whose errors have no mean
};

/// Exact values of larger results are not kept.
inline constexpr std::size_t most_exact = std::size_t{1} << 22;

/// Whether an op of this kind (AlignedResult::kind, or an op's name) is made of sums and products alone. Errors of
/// functions have a mean, which differs from one library to another.
bool adds_and_multiplies(std::string_view kind);
/// Adds an op, and notes whether the runs depart there and how far it amplifies what the `operands` differ by.
void add_op(DriftOp op, const std::vector<const RunDifference*>& operands, RunsDrift& drift);
/// Sets what a report of each run alone says of an op.
void take_reports(DriftOp& op, const LayerSummary* a, const LayerSummary* b);
/// Sets the verdict of an op and the reason. `ops`: compared in all.
void settle(DriftOp& op, const OpEvidence& evidence, std::size_t ops);
/// What is wrong with a layer that is beyond a bound; empty: nothing.
std::string complaint_of(const LayerSummary& layer);
/// What any two runs differ by at most in an output of this name in each run's report, by bounds of this kind; empty: they
/// do not bound every element.
std::optional<double> any_runs_apart(const Comparison& a, const std::string& name_a, const Comparison& b,
                                     const std::string& name_b, BoundKind kind = BoundKind::adjoint_any_order);
/// Adds the choices of both runs, and the structure of what they differ by, as they are and after a cast to bfloat16.
/// `a`, `b`, `top`: as decisions_of() has them.
void add_rows(const std::string& name, const AlignedNumbers& numbers, const KnownNumbers* a, const KnownNumbers* b,
              std::int64_t top, RunsDrift& drift);
/// For how many elements of an output bounds for any run are computed: all of a sample, up to 4096, where that takes about
/// a second and 256 MB, or 4 GB where it is asked for; else few.
std::int64_t most_bounded_elements(const Graph& graph, const Trace& trace, bool asks_for_all);
/// Sets the verdict of the whole, and the op or the result without a counterpart that it hangs on.
void find_culprit(RunsDrift& drift);

}  // namespace driftbound::analysis
