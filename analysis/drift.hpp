#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/decisions.hpp"
#include "analysis/judge_records.hpp"
#include "analysis/noise.hpp"
#include "analysis/run_difference.hpp"
#include "driftbound/trace/run_alignment.hpp"

namespace driftbound::analysis {

/// What two runs of one network differ by, in order of severity: the worst one of its ops is that of the whole.
///   expected    rounding: both runs hold their bounds, on the same numbers and by the same function
///   undecided   a bound, an op or a value that is not known leaves it open
///   suspicious  no proven bound is exceeded, but rounding is certain to make that only with the probability asked for, or
///               operands are read otherwise than declared
///   bug         a run exceeds a proven or conditional bound, a value is not finite in one run only, or the runs compute
///               other functions or read other numbers
enum class DriftVerdict { expected, undecided, suspicious, bug };
std::string_view name_of(DriftVerdict verdict);
/// The same as a status, for colours and test reports.
Status status_of(DriftVerdict verdict);

/// A value that both runs computed.
struct DriftOp {
  std::string name, name_b;  ///< of the results, as a report of each run alone has them
  std::string module, op, op_b;
  AlignedBy by = AlignedBy::op;
  std::optional<RunDifference> difference;  ///< empty: its numbers are not recorded in both runs, or not the same part
  bool has_same_operands = false;           ///< all that it reads is the same number for number
  Status a = Status::not_checked, b = Status::not_checked;  ///< of each run alone
  /// Of the first run's numbers as a run of the second one's network; `holds` where both networks give the same from their
  /// inputs on (T-137 (g)).
  Status as_b = Status::not_checked;
  bool is_as_a = false;                 ///< `as_b` is of the second run's numbers as a run of the first one's network
  double error_a = 0.0, error_b = 0.0;  ///< largest errors on each run's own operands
  std::optional<double> from_input_a, from_input_b;  ///< largest errors from the input on
  std::string kernel_a, kernel_b;  ///< what gives all bits of each run, in words; empty: not found, or no product
  bool have_one_kernel_each =
      false;                         ///< `kernel_a` is one kernel and gives every number of its run; so does `kernel_b`
  bool has_several_kernels = false;  ///< it takes several kernels to give all bits of one run
  std::optional<double> unit;        ///< unit roundoff of the narrower type of both results; empty: integers
  std::optional<double> apart_at_most;  ///< of outputs: what any two runs of these arithmetics differ by at most
  DriftVerdict verdict = DriftVerdict::expected;
  std::string reason;  ///< one sentence

  /// What the op adds to the difference, at most: the difference itself on the same operands, else the errors of both.
  /// Source:    docs/theory.md T-137
  double introduced() const;
  /// Whether the difference is known without the second run: its kernel, on the first run's operands, gives its numbers (signs
  /// of zeros apart).
  /// Source:    docs/theory.md T-170
  bool is_predicted() const { return have_one_kernel_each && has_same_operands && difference.has_value(); }
  /// What the difference of the operands contributes, at least: the difference less introduced().
  double propagated() const;
};

/// A value from outside whose numbers differ in the two runs.
struct DriftSource {
  std::string a, b;                ///< ids
  std::string called_a, called_b;  ///< names in the programs, where these are known, else the ids
  std::string reader;              ///< the first result that is computed from it
  std::optional<RunDifference> difference;
  std::string rounded_to;         ///< one run has the other one's numbers rounded to this type; empty: other numbers
  bool is_first_rounded = false;  ///< the first run has those of the second
  bool is_declared = false;       ///< the type in which that run records them says so
  bool is_zero_in_one = false;    ///< all numbers are 0 in one run alone, as of a bias that was dropped
  /// They differ by a few roundings alone: an op that was not recorded made them.
  bool is_drifted = false;
};

/// A result without a counterpart in the other run.
struct DriftAlone {
  std::string name, op;
  Status status = Status::not_checked;  ///< of its own run
  std::string reason;                   ///< what is wrong with it; empty: nothing
  bool is_result = false;               ///< it is what the run ends with: nothing in the run reads it
  bool follows_unknown = false;         ///< it follows from numbers from outside that the other run has not
};

/// The structure of the differences of a value.
struct DriftNoise {
  std::string name;
  std::string cast;  ///< the format that the numbers were cast to first; empty: none
  NoiseStructure structure;
};

/// The first choice, or the first token from outside, in which the runs differ. What follows has other inputs.
struct DriftParting {
  std::string name;           ///< of the choice, or of the value from outside that has the tokens, in the first run
  std::int64_t row = 0;       ///< of the first run
  std::int64_t position = 0;  ///< in the row, in the first run
  std::int64_t a = 0, b = 0;  ///< what stands there
  bool is_drawn = false;      ///< by chance: both runs draw it at random
};

/// A run compared with the first one.
struct RunsDrift {
  DriftVerdict verdict = DriftVerdict::expected;
  std::vector<DriftOp> ops;          ///< in the order of the first run
  std::vector<DriftSource> sources;  ///< those that differ
  std::vector<DriftAlone> only_a, only_b;
  std::vector<Decisions> decisions;  ///< of values with two classes or more that no other aligned value reads
  std::vector<DriftNoise> noise;     ///< of the same values, where they have enough rows
  std::vector<std::string> sources_only_a, sources_only_b;  ///< as called
  std::optional<AlignedRows> rows;
  std::int64_t pairs_of_steps = 0;       ///< that are compared; 0: the runs read their texts in the same steps
  std::optional<DriftParting> parting;   ///< empty: the runs do not part
  std::optional<std::size_t> culprit;    ///< the first op that has the verdict, unless that is `expected`
  std::optional<DriftAlone> alone;       ///< the first result without a counterpart that has it, where no op has
  std::optional<std::size_t> first;      ///< the first op whose numbers differ
  std::optional<std::size_t> amplifies;  ///< the op whose result differs most, next to what it reads
  double amplification = 0.0;
  std::vector<std::string> undeclared;  ///< sentences on a kernel of both runs, or one of each, that nobody declared
  std::string not_as_b;  ///< why the first run was not judged as a run of the second one's network; empty: it was
  bool is_as_a = false;  ///< the second run was judged as one of the first one's network, whose rows it has, instead
  bool interrupted = false;
};

struct DriftOptions {
  JudgeOptions judge;
  AuditOptions audit;
  std::int64_t most_numbers = 0;  ///< in a network that is judged from the input on
  std::string target;             ///< a number of interest whose error is measured; empty: none
  bool attributes = false;        ///< whether its error is split among layers
  bool bounds_outputs = false;    ///< bounds of any run for every element of an output, also where that takes long
  std::int64_t top = 5;           ///< size of the sets of largest numbers that are compared
  /// By row of the first run's value: the class whose log-probability is compared; empty: the first run's choice.
  std::vector<std::int64_t> chosen;
};

/// A recorded run, and what is said of it alone.
struct JudgedRun {
  const RecordedRun* run = nullptr;
  Judgement judgement;
  std::optional<ArithmeticModel> arithmetic;  ///< of the network that its records are; empty: they are none
  /// What is known of the network's outputs, by result; of small ones.
  std::map<RecordedResult, KnownNumbers> known;
  /// The exact values from the inputs on, rounded to double; of as many results as have 2^25 numbers together.
  std::map<RecordedResult, StoredTensor> exact;
};
/// Judges a run alone: every op, and the network from the input on where there is one.
/// Throws:    what judge_records() throws
JudgedRun judge_run_alone(const RecordedRun& run, const DriftOptions& options);

/// Compares two runs that were recorded op by op. Every op of each run is judged alone; the first run's numbers are also
/// judged as a run of the second one's network, which shows another function, another weight and another input; values
/// that both runs computed are compared.
/// Throws:    InvalidArgument where the runs are of other models or inputs; what the files of the runs throw
/// Source:    docs/theory.md T-137
/// `alignment`: of the two runs, where it is known.
RunsDrift compare_runs(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options,
                       std::optional<RunAlignment> alignment = std::nullopt);
/// Throws:    InvalidArgument where the runs have no op in common; what the files of the runs throw
RunAlignment aligned_runs(const RecordedRun& a, const RecordedRun& b);

/// A run of a model, and what is said of it alone.
struct TracedRun {
  Graph graph;  ///< of what is recorded
  Trace trace;
  Judgement judgement;
  std::map<std::string, KnownNumbers> known;  ///< of outputs, by the node's name; of small ones
  std::int64_t top = 0;                       ///< DriftOptions::top
  std::vector<std::int64_t> chosen;           ///< DriftOptions::chosen
  /// Of DriftOptions::target: the root mean square error over the samples, and by node what it would be without the node's
  /// own rounding errors (T-73), an estimate; empty where it was not asked for.
  std::optional<double> rms;
  std::vector<double> rms_without;
  std::vector<double> rms_of_layer;  ///< of what the node's own rounding errors contribute, to first order
};
/// Throws:    what judge() throws
TracedRun judge_trace_alone(Graph graph, Trace trace, const DriftOptions& options);

/// Compares two runs of one model on the same inputs, layer by layer: layers are the same by their names.
/// Throws:    InvalidArgument where the inputs differ, or no layer is recorded in both
/// Source:    docs/theory.md T-137
RunsDrift compare_traces(const TracedRun& a, const TracedRun& b);

}  // namespace driftbound::analysis
