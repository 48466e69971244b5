#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/comparison.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/reference/reference.hpp"

namespace driftbound::analysis {

/// For which products the kernel is searched that gives their bits (KernelSearch): none, those whose search is cheap, all.
enum class KernelSearches { none, cheap, all };

/// Throws:    InvalidArgument where --failure-probability is not between 0 and 1
void check_failure_probability(double probability);

struct JudgeOptions {
  PrecisionPolicy precision;
  std::vector<Scalar> scalars;
  /// What to compute and keep; empty: all. With Diagnostic::attribution errors are broken up
  /// (OutputSummary::breakdown), with Diagnostic::condition there are condition numbers.
  std::vector<BoundRequest> bounds;
  std::vector<BoundRequest> without;   ///< bounds that do not hold for the run: not computed, whatever `bounds` says
  bool trace_is_declared_run = false;  ///< as BoundOptions has it
  double threshold = 0.5;
  double failure_probability = 1e-9;  ///< over all samples, as BoundOptions has it
  bool tests_readings = true;         ///< as BoundOptions has it
  /// In a recorded run of unknown order, bounds take the order and the matrix unit of kernels that give all numbers of a node in all
  /// samples (docs/theory.md T-170).
  KernelSearches kernel_searches = KernelSearches::none;
  /// Bytes that bounds from end to end may take; where they would take more they are left out, unless `bounds` names
  /// them. 0: any number.
  std::uint64_t memory = 0;
  std::int64_t block = 64;  ///< samples judged at a time at most (batched models); fewer where these are large
  /// A box of inputs to bound numbers of interest over: ranges of a sample's elements, the last one repeats; empty:
  /// none.
  std::vector<std::pair<double, double>> box;
  /// Called with samples done and in all; returning false ends the work after the samples done so far.
  std::function<bool(std::int64_t, std::int64_t)> progress;
  /// As BoundOptions has it; empty: followed_of_each_output().
  std::optional<std::int64_t> most_output_elements = std::nullopt;
  /// Called with every block's accumulated reference and bounds (first sample, samples).
  std::function<void(const Reference&, const Bounds&, std::int64_t, std::int64_t)> keep_block;
};

struct Judgement {
  Comparison comparison;
  bool interrupted = false;
  std::vector<BoundRequest> left_out;  ///< bounds that would have taken more than JudgeOptions::memory
  std::uint64_t memory_needed = 0;     ///< bytes that they would have taken, roughly; 0 where none was left out
};

/// A run of a graph whose samples are given when they are judged.
struct RunInParts {
  const Trace* about = nullptr;  ///< the run without its layers
  /// Samples [first, first + count) as slice() gives them; count is 1 unless the model is batched.
  std::function<Trace(std::int64_t first, std::int64_t count)> part;
  std::int64_t at_once = 1;  ///< samples that are made together
  /// Whether samples that are asked for twice are the same numbers. Devices need not compute the same again: bounds then take
  /// no kernels that were found.
  bool is_kept = false;
};

/// How many elements of each output bounds for any run follow: as BoundOptions has it, fewer where a run has many outputs,
/// as one of many steps, that are 64 in all; one at least.
std::int64_t followed_of_each_output(const Graph& graph);

/// Compares a run with the certified references and the bounds, block by block. Where local bounds alone are asked for,
/// and no numbers of interest, every layer is compared by itself, one after the other: memory is that of a part of the
/// run and of the largest layer.
/// Throws:    what bound() and the references throw
Judgement judge(const Graph& graph, const RunInParts& run, const JudgeOptions& options);
Judgement judge(const Graph& graph, const Trace& trace, const JudgeOptions& options);

/// Searches the kernels of all nodes in the parts of a run, with inputs as the run used them, and keeps those that give all
/// numbers of every part.
class FoundInParts {
public:
  FoundInParts(std::size_t nodes, const JudgeOptions& options, Comparer& comparer);

  /// A part as Comparer::add() takes it, of the comparer's graph or of one with the same nodes and other constants.
  void add(const Graph& graph, Trace part);
  /// Empty for a run whose order is declared: its bounds tell whether it is the declared one.
  FoundArithmetics arithmetics(const ArithmeticModel& declared) const;
  /// Of products that one kernel gives alone.
  KernelsByNode kernels() const;

private:
  const JudgeOptions& options_;
  Comparer& comparer_;
  std::vector<std::optional<KernelFinding>> findings_;  ///< by node: of all parts so far; empty: some part has others
  bool is_first_ = true;
};

/// Searches the kernels of a trace that add_layers_alone() takes.
void search_layers_alone(const Graph& graph, const Trace& trace, FoundInParts& kernels);

/// Compares every layer of a trace with the exact layer at its recorded operands and with the local bounds, and adds the
/// results to a comparer of this graph, or of one with the same nodes. The failure probability is that of this call.
/// `found`: the arithmetics of kernels that give all numbers of the comparer, those of other calls too; empty: none
/// Throws:    as judge()
void add_layers_alone(const Graph& graph, const Trace& trace, const JudgeOptions& options, std::int64_t first_sample,
                      const FoundArithmetics& found, Comparer& comparer);

}  // namespace driftbound::analysis
