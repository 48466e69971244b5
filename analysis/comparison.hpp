#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/breakdown.hpp"
#include "analysis/nearest_reading.hpp"
#include "analysis/scalar.hpp"
#include "analysis/status.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/box.hpp"
#include "driftbound/evaluate/kernel_search.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/reference/reference.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

/// Whether a bound is close to the error of the run, because that is what it is made of.
bool is_close_by_design(BoundKind bound);

/// The element that uses a verdict-giving bound most (or has the largest error, where there is none).
struct WorstCase {
  std::int64_t sample = 0;
  std::int64_t element = 0;
  double computed = 0.0;
  double reference = 0.0;
  double error = 0.0;
  double bound = std::numeric_limits<double>::infinity();  ///< infinity where no bound gives the verdict
};

/// One bound over all elements of one tensor and all samples.
struct BoundSummary {
  BoundKind kind = BoundKind::componentwise;
  Guarantee guarantee = Guarantee::proven;
  Question question = Question::this_run;
  std::string theorem;
  std::string condition;
  double max_bound = 0.0;
  double max_utilisation = 0.0;  ///< |computed - mid| / bound, 0/0 = 0
  double approach =
      0.0;  ///< the same over elements whose bound exceeds one ulp: a single rounding reaches its bound by design
  std::optional<double> median_bound_over_error;  ///< over the elements with an error
  std::int64_t violations = 0;
  std::int64_t checked = 0;
  std::int64_t undecided = 0;
  std::int64_t not_certifiable = 0;  ///< infinite bounds for every run: no statement is possible in this arithmetic
  std::int64_t infinite = 0;         ///< values whose bound is infinite, of this run or of every run
  std::optional<double> remainder_share;  ///< largest share that curvature and kinks have in it
  std::optional<bool> is_smallest;        ///< of several for every run in any order; empty where it is not among them
  /// Probabilistic bounds: how likely it is, at most, that any of the values is above its own, under the model.
  std::optional<double> failure_probability;
  std::string not_applicable;          ///< why there is no statement for some values; empty: there is one for all
  std::int64_t without_statement = 0;  ///< those values
  bool follows_largest = false;        ///< whether there is a statement for the largest elements of the samples alone
  /// Of undecided values, those above a bound of any run while every layer is within its own: the run may compute a layer
  /// by other steps, which docs/ops.md lists.
  std::int64_t by_other_steps = 0;
  std::optional<WorstCase> worst;  ///< the element that uses it most
  double seconds = 0.0;

  /// Whether a value that it bounds by chance is certainly above it.
  bool is_improbable() const { return guarantee == Guarantee::probabilistic && violations > 0; }
  bool gives_verdict() const { return guarantee == Guarantee::proven || guarantee == Guarantee::conditional; }
  /// The error itself, enclosed (T-70, T-97), or that and what other runs may add (T-76): it is used up by design, and
  /// says nothing of how large errors may be.
  bool is_measurement() const { return is_close_by_design(kind); }
  /// Whether it belongs to the answers: folklore, a heuristic about this run, does not.
  bool answers() const { return guarantee != Guarantee::heuristic || question == Question::any_run; }
  /// Whether it says nothing of any value.
  bool is_silent() const { return checked == 0; }
  /// Whether it is asked of this bound that it decides where it is finite.
  bool must_decide() const { return gives_verdict() && !is_measurement(); }
  /// Values that were found to be within it or not. The bound for every run in the declared order is the error of one,
  /// so that it decides all of its values or none.
  std::int64_t decided() const {
    const std::int64_t open = undecided + not_certifiable;
    if (!gives_verdict() || (is_measurement() && (kind != BoundKind::replay || open > 0))) return 0;
    return checked - open;
  }
  bool decides() const { return decided() > 0; }
};

struct ScopeSummary {
  double max_error = 0.0;
  double rms_error = 0.0;
  double max_ulps = 0.0;          ///< in units in the last place of the exact value, output format
  double bit_exact = 0.0;         ///< share of elements equal to the exact value rounded to the output format
  double reference_radius = 0.0;  ///< largest radius
  double scale = 0.0;             ///< largest |exact value|
  std::int64_t elements = 0;      ///< finite elements compared
  std::int64_t non_finite = 0;
  /// Finite elements that at least one proven or conditional bound decides. Bounds that are the error itself do not count.
  std::int64_t decided = 0;
  std::optional<WorstCase> first_open;  ///< the first element that none decides
  /// By Question: finite elements without a finite proven or conditional bound. Empty: there is no such bound.
  std::array<std::optional<std::int64_t>, 2> unbounded = {};
  /// Finite elements of a large output that bounds of any run do not follow, and those of them that no bound decides.
  std::int64_t not_followed = 0, not_followed_undecided = 0;
  std::vector<BoundSummary> bounds;
  std::optional<WorstCase> worst;
};

/// The bound of that kind; nullptr where the scope has none.
const BoundSummary* find_bound(const ScopeSummary& scope, BoundKind kind);

/// The smallest bound of the scope that holds in any order of summation.
BoundKind any_order_bound(const ScopeSummary& scope);

/// The bound of the scope that holds in the declared order: by its partial sums where there is one.
BoundKind declared_order_bound(const ScopeSummary& scope);

struct KappaSummary {
  double median = 0.0, p99 = 0.0, max = 0.0;
};

/// A value that is not finite, and what it was made of.
struct VoidCase {
  std::int64_t sample = 0, element = 0;
  double computed = 0.0;
  std::vector<double> operands;        ///< of functions and arithmetic of single elements; empty: of others
  std::vector<double> exact_operands;  ///< the same in the exact network; NaN where that has none
  std::optional<double> exact;         ///< of the exact op on these operands; empty: it has no value there
  double largest = 0.0;                ///< number of the format

  /// Whether the exact value is well within the format, so that rounding cannot make an infinity of it.
  bool is_in_range() const { return exact && std::abs(*exact) <= largest / 2.0; }
};

/// A layer that is the result of a record, of a run that was recorded op by op.
struct RecordSummary {
  std::string name;        ///< of the record; a layer has that of its result
  std::string op;          ///< as it was recorded: "aten::addmm"
  std::string module;      ///< dotted path; may be empty
  std::string arithmetic;  ///< name of the declared one
  std::string device;
  std::int64_t rank = 0, result = 0;
  std::int64_t elements = 0;  ///< of the whole result
  std::int64_t judged = 0;
  std::int64_t draws = 0;     ///< independent ones among those judged; 0: all elements were to be judged
  std::int64_t infinite = 0;  ///< elements that are infinite, or NaN, as their operands make them
  std::int64_t lacking = 0;   ///< elements for which a part of an operand is not recorded
};

/// Records of one op that are not judged, for one reason.
struct NotJudged {
  std::string op, why;
  std::string first;  ///< name of the first one
  std::int64_t count = 0;
};

/// A run that was recorded op by op, as a whole.
struct RunSummary {
  std::int64_t records = 0;
  std::int64_t views = 0;                    ///< results that move elements: there is nothing to judge
  std::int64_t not_judged = 0;               ///< results
  std::int64_t draws = 0;                    ///< elements drawn of every result; 0: all were judged
  std::vector<ArithmeticModel> arithmetics;  ///< of the records that are judged, each name once
  std::vector<NotJudged> reasons;
  std::vector<std::string> problems;  ///< of the recording as a whole, one sentence each
  std::int64_t from_input = 0;        ///< results that are judged from the input on, too
  std::vector<std::string> given;     ///< records whose results are inputs there, as they are no part of the network
  std::string not_from_input;         ///< why none is judged from the input on, or none by bounds; empty: some are
};

struct LayerSummary {
  std::size_t index = 0;
  std::string name;
  std::string op;
  std::int64_t fan_in = 0;
  bool starts_at_inputs = false;  ///< every operand is an input or a constant of the model
  bool copies = false;            ///< every output is an operand up to its sign, or 0
  std::int64_t outputs = 0;       ///< elements per sample
  std::int64_t compared = 0;      ///< finite values, in all samples
  std::int64_t checked = 0;       ///< of these, by the bound that decides most
  double gamma_n = 0.0;
  std::optional<KappaSummary> kappa;
  std::optional<std::int64_t> ambiguous;  ///< roundings to narrow formats that runs may do differently, in all samples
  std::optional<NearestReading> nearest_reading;  ///< of a Gemm's or MatMul's operands (T-134)
  std::optional<Reading> reading;                 ///< of its products' operands, as the run shows it (T-130)
  std::optional<KernelFinding> kernel;            ///< where kernels were searched
  std::optional<std::int64_t> differing;  ///< values that the run of the declared arithmetic has otherwise (T-97)
  std::int64_t non_finite = 0;
  std::optional<VoidCase> first_void;  ///< the first value that is not finite
  std::string explained_by;            ///< earlier layer whose non-finite values or violation explain this one's
  std::string wrong_choice;            ///< what is wrong with a recorded argmax or topk; empty: of other layers
  ScopeSummary local, accumulated;
  std::optional<RecordSummary> record;  ///< of a run that was recorded op by op
  Status status = Status::holds;
};

/// A number of interest over a box of inputs (T-77).
struct BoxSummary {
  std::vector<std::pair<double, double>> ranges;  ///< of a sample's elements, the last one repeats
  SummationOrder order;                           ///< that it speaks of
  BoxBound bound;
};

/// Samples whose sign every run gives right, none does, or that nothing is certain of (T-76).
struct SignCounts {
  std::int64_t right = 0, wrong = 0, open = 0;
};

struct OutputSummary {
  std::string name;
  std::string given_as;  ///< "an input" or "a constant" that the model hands on; empty: a node computes it
  ScopeSummary scope;
  std::optional<SignCounts>
      signs;  ///< scalars and outputs that are one number a sample, by the rounded shadow, else by adjoint/any-order
  std::optional<double> least_distance;  ///< of an exact number from 0, where signs come from adjoint/any-order
  std::optional<KappaSummary> kappa;
  std::optional<KappaSummary> condition;  ///< of targets: the layers' condition numbers, added up, over the samples
  std::optional<BoxSummary> box;          ///< scalars and outputs that are one number a sample, where a box was given
  std::optional<Breakdown> breakdown;     ///< scalars and outputs that are one number a sample, where it was asked for
  Status status = Status::holds;
};

/// A graph output that is one number a sample, and which of Bounds::targets it is.
struct OutputTarget {
  std::size_t output = 0, target = 0;
};

/// What computed values are compared with: the exact layer on the computed input, the exact network on the original
/// input, and the same for an output or scalar.
enum class Scope { local, accumulated, end_to_end };
/// "local", "accumulated", "end_to_end"
std::string_view name_of(Scope scope);

/// A question about errors from the input on that has no answer for some values, as their bounds are infinite. It leaves
/// the verdict as it is, which stands on the layers.
struct OpenQuestion {
  Question question = Question::this_run;
  std::int64_t values = 0, of = 0;  ///< of outputs and scalars
  std::string layer;                ///< from which on bounds are infinite; empty: unknown
  std::string why;                  ///< empty: unknown
};

struct ClosestApproach {
  std::string layer;
  Scope scope = Scope::local;
  BoundKind bound = BoundKind::componentwise;
  double utilisation = 0.0;
};

/// Whether a question has been answered for every output: with finite bounds, and some were computed.
bool is_answered(const struct Comparison& comparison, Question question);

struct Comparison {
  std::vector<LayerSummary> layers;
  std::vector<OutputSummary> outputs;  ///< graph outputs, then scalars
  std::int64_t samples = 0;
  std::map<int, std::int64_t> rungs;  ///< reference elements by deciding precision
  std::int64_t reference_undecided = 0;
  std::int64_t reference_valueless = 0;  ///< of these, what has no value, or one beyond all doubles
  std::int64_t reference_too_fine = 0;   ///< of these, what is known to more digits than two doubles hold
  std::int64_t reference_undefined = 0;  ///< of those without a value, what is made of operands that are not finite
  bool box_without_number = false;       ///< a box was given, and there is nothing to bound over it
  int max_bits = 0;
  std::vector<std::string> assumptions;
  std::vector<NotByRows> not_by_rows;  ///< of all blocks together
  Status verdict = Status::holds;
  std::vector<OpenQuestion> open_questions;  ///< at most one a question
  std::optional<ClosestApproach> closest;
  std::optional<RunSummary> run;  ///< where the layers are results of records
  double threshold = 0.5;
  /// The probability, at most, that some local probabilistic bound is exceeded by an honest run, under its model, and
  /// the same for those from end to end, and for readings of operands. 0: nothing is judged by chance.
  double failure_probability = 0.0;
};

/// One layer in one scope, or one output.
struct ScopeOf {
  Scope scope = Scope::local;
  const ScopeSummary& summary;
  const LayerSummary* layer = nullptr;    ///< if local or accumulated
  const OutputSummary* output = nullptr;  ///< if end to end
  const std::string& name() const { return layer ? layer->name : output->name; }
  Status status() const { return layer ? layer->status : output->status; }
};
/// What references took, and what bounds assume, of both.
void add_references(Comparison& all, const Comparison& one);
/// Adds layers that were judged by themselves.
void append(Comparison& all, Comparison&& one);
/// A verdict that nothing stands on is undecided.
void settle(Comparison& comparison);

/// Adds what a network says of one of its layers to the same layer, which was judged alone.
void add_from_input(LayerSummary& alone, LayerSummary&& of_network, double threshold);

/// Layers in graph order, each local and accumulated, then outputs and scalars.
std::vector<ScopeOf> scopes_of(const Comparison& comparison);

/// Elements per sample of an output that holds `size` elements of `samples` samples.
/// Throws:    InvalidArgument where the wanted element is not among them, or is no layer's
std::int64_t require_element(const Graph& graph, const Scalar& scalar, const OutputElement& wanted, std::size_t size,
                             std::int64_t samples);

/// Collects evaluations (blocks of samples) one after the other and sums them up.
class Comparer {
public:
  /// The scalars are the first of Bounds::targets, one each.
  Comparer(const Graph& graph, std::vector<Scalar> scalars, double threshold, std::vector<OutputTarget> outputs = {});
  ~Comparer();
  Comparer(const Comparer&) = delete;
  Comparer& operator=(const Comparer&) = delete;

  /// One evaluation: its trace (without sample axis where the model is not batched), references and bounds. Without an
  /// accumulated reference (null) every layer is compared by itself, and outputs and scalars are left out.
  /// `before_layer`, if given, is called with every layer just before it is compared, and may put other references in
  /// the place of these.
  void add(const BatchLayout& layout, const Trace& trace, const Reference* accumulated, const Reference& local,
           const Bounds& bounds, std::int64_t first_sample,
           const std::function<void(std::size_t layer)>& before_layer = {});
  /// Searches the kernel of a node with one more evaluation, as add() takes it, of a graph with the comparer's nodes.
  /// `most_work` as KernelSearch has it.
  /// Returns:   kernels that give all numbers of this evaluation; empty: none do
  std::optional<KernelFinding> search_kernel(const Graph& graph, const Trace& trace, std::size_t node,
                                             std::int64_t most_work);
  /// How many elements of products, or rows of other ops, readings were tested on, in all layers.
  std::int64_t tested_computations() const;
  /// `failure_probability`: as Comparison has it.
  Comparison finish(double failure_probability = 0.0);

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace driftbound::analysis
