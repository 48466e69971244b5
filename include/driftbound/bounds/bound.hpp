#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/bounds/bound_kind.hpp"
#include "driftbound/bounds/rounded_shadow.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

// The main entry point of the library: bound() and Bounder compute every error bound of one recorded evaluation
// (a Trace) of a Graph. This file also defines the options and the results.

/// Strength of a statement. proven: a theorem without conditions. conditional: a theorem whose hypotheses include
/// something measured, documented or assumed. probabilistic: it holds up to a failure probability, under a model of
/// rounding errors. heuristic: not proven, an estimate or a rule of thumb. A run that holds, and one that violates, does
/// so by proven and conditional bounds only.
enum class Guarantee { proven, conditional, probabilistic, heuristic };
/// Whether a bound holds for the recorded run only (this_run), or for every run of the same arithmetic (any_run).
enum class Question { this_run, any_run };
std::string_view name_of(Guarantee guarantee);
std::string_view name_of(Question question);

/// How a product reads its operands. nearest_even, nearest_away: rounded to the arithmetic's input format to nearest,
/// with this tie rule. as_declared: rounded as the arithmetic declares (truncated, or to nearest with an undetermined
/// tie rule). as_given: unrounded, with the products summed by float32 operations. either_way: undetermined.
enum class Reading { as_declared, nearest_even, nearest_away, as_given, either_way };
std::string_view name_of(Reading reading);
/// Combines the readings of two parts of a run. Returns either_way if they differ; if one is empty, returns the other.
std::optional<Reading> joined(std::optional<Reading> one, std::optional<Reading> other);

/// How an operand of a product may have been read: as it is, or rounded to a format (to nearest with ties to even where
/// nothing else is said).
enum class OperandReading { as_it_is, fp32, tf32, tf32_ties_away, tf32_cut, fp16, bf16, bf16_cut, fp8_e4m3, fp8_e5m2 };
std::string_view name_of(OperandReading reading);

/// What the tested elements of recorded results show of one reading of a call: of the operands of a product, or of the
/// op itself.
/// Source:    docs/theory.md T-134, T-135
struct ReadingEvidence {
  OperandReading left = OperandReading::as_it_is, right = OperandReading::as_it_is;
  bool is_declared = false;  ///< whether the declared arithmetic reads operands so, or may
  double squares = 0.0;      ///< sum of the squares of computed - exact result of that reading
  /// Elements, or rows, whose error has a sign and on which this reading and the declared one clearly differ, and those
  /// of them whose error has the sign of the difference.
  std::int64_t signs = 0, agreeing = 0;
  std::string variant = {};  ///< another op in the place of the recorded one: "epsilon 1e-06"; empty: that itself
};

/// The evidence for all pairs of readings of the operands of a product, in the order of OperandReading; or for an op as
/// it was recorded and its variants.
struct ReadingTest {
  std::vector<ReadingEvidence> pairs;
  std::int64_t elements = 0;      ///< tested
  std::int64_t computations = 0;  ///< elements of a product, or rows, that are tested
  /// Whether the arithmetic and the data admit the model of T-134, or of T-135; without it there is no probability.
  bool is_modelled = false;
};
/// Adds the evidence of other samples.
void add_to(ReadingTest& test, const ReadingTest& more);
/// An upper bound of the probability that errors of an honest run agree so often with the difference of a reading.
/// Source:    docs/theory.md T-134
double chance_of_agreement(const ReadingEvidence& evidence);

/// One bound of |computed - exact|, with one value for every element of a tensor.
struct BoundResult {
  BoundKind kind = BoundKind::componentwise;
  Guarantee guarantee = Guarantee::proven;
  Question question = Question::this_run;
  std::string theorem;    ///< id in docs/theory.md
  std::string condition;  ///< the assumptions of a conditional bound; empty if proven
  Tensor<double> values;  ///< upper bounds; infinite: no bound
  /// The part of `values` due to second-order remainders and to errors of constants (T-71); empty if the bound has
  /// none.
  std::vector<double> remainder;
  /// Probabilistic bounds: upper bound of the probability that any of `values` is exceeded, by the model stated in
  /// `condition`.
  std::optional<double> failure_probability;
  /// The elements of a sample that have a bound, where those of a large output are chosen
  /// (BoundOptions::most_output_elements); empty: all. `values` of the others are infinite and say nothing.
  std::vector<std::int64_t> elements;
  /// Why a probabilistic bound, an estimate or `replay` is infinite where its method does not apply; empty: it applies
  /// everywhere.
  std::string not_applicable;
  double seconds = 0.0;
};

/// Bounds and condition numbers of one node for one evaluation.
struct LayerBounds {
  std::vector<BoundResult> local;        ///< against the exact layer on the computed input
  std::vector<BoundResult> accumulated;  ///< against the exact network on the original input
  /// Condition number kappa = (|W||x| + |b|) / |W x + b| of every element, approximate (a diagnostic). Where W x + b =
  /// 0 it is infinite, or 1 if |W||x| + |b| is 0 too. Empty if the node computes no dot products.
  Tensor<double> kappa;
  std::int64_t fan_in = 0;
  double gamma_n = 0.0;  ///< gamma_{fan_in} of the accumulator; 0 if the node computes no sum
  /// Number of operands and results of the node, over all samples, whose rounding to a narrow format is undecided.
  /// Empty if the node has no such rounding or BoundKind::rounded_shadow is not requested.
  std::optional<std::int64_t> ambiguous;
  /// How the recorded run reads the operands of the node's product, as detected by T-130. Empty unless a matrix unit
  /// may be bypassed and BoundKind::rounded_shadow is requested.
  std::optional<Reading> reading;
  /// Which readings of the operands of a Gemm or MatMul, or which variants of another op, bring its exact result how near
  /// to the recorded one. Empty for ops without either, and without KnownExact::local.
  std::optional<ReadingTest> readings;
  /// Number of recorded values that differ from those of the run of the declared arithmetic (T-97), or by the kernels
  /// found (T-171), ignoring the signs of zeros. Empty if no such run was made in addition to the recorded one.
  std::optional<std::int64_t> differing;
};

/// Splits the signed error computed - exact of a target into contributions of layers and inputs, for every sample. The
/// contributions add up to the error within about 10^-9 of a typical error (10^-7 of the smallest errors); for runs in
/// double, within 10^-3 of the error.
/// Guarantee: none (a diagnostic); the sum can be compared with the error. The split between several operands of one
///            node is a convention
/// Source:    docs/theory.md T-73
struct Attribution {
  std::vector<std::vector<double>> layers;  ///< [node][sample]: contribution of the node's own rounding errors
  std::vector<double> inputs;               ///< [sample]: contribution of rounding the inputs
};

/// Condition numbers K of a target with respect to layers, for every sample: if every term of every sum of a layer has
/// a relative error of at most e, the target has, to first order, a relative error of at most e K. Approximate.
/// Guarantee: none (a diagnostic)
/// Source:    docs/theory.md T-79
struct Condition {
  std::vector<std::vector<double>> layers;  ///< [node][sample]: K of the layer; infinite where the target is 0
  std::vector<double> target;               ///< [sample]: |target|
};

/// Bounds of one target; every BoundResult has one value per sample.
struct TargetBounds {
  /// Of the kinds from BoundKind::shadow to BoundKind::rounded_shadow.
  std::vector<BoundResult> bounds;
  /// Contributions of the layers to BoundKind::adjoint_any_order, [node][sample]: |d|.(sigma + kappa), with d the
  /// adjoint, sigma the local errors and kappa the remainders of the layer.
  std::vector<std::vector<double>> layer_shares;
  std::optional<Attribution> attribution;   ///< if Diagnostic::attribution is requested
  std::optional<Condition> condition;       ///< if Diagnostic::condition is requested
  std::optional<RunEnclosures> enclosures;  ///< from the rounded shadow, if there is one
};

/// A question about a target that the row kernels did not answer for some samples. Its bounds were computed element by
/// element, which is slower and, for some functions, less tight.
struct NotByRows {
  Question question = Question::any_run;
  std::string obstacle;  ///< what has no row kernel: a node, the arithmetic, or samples that stay undecided
  double seconds = 0.0;  ///< time that these bounds took
};

/// Where bounds from the input on become infinite: the first node, in graph order, with an infinite bound and finite
/// ones at all operands.
struct InfiniteBound {
  Question question = Question::this_run;
  std::size_t node = 0;
  std::int64_t sample = 0, element = 0;  ///< the first one there; the element within the sample
  std::string reason;                    ///< in plain words: a divisor's enclosure, an overflow, a jump
};

struct Bounds {
  std::vector<LayerBounds> layers;       ///< per node
  std::vector<TargetBounds> targets;     ///< per entry of BoundOptions::targets
  std::vector<std::string> assumptions;  ///< the conditions of all conditional bounds, without repetition
  std::vector<NotByRows> not_by_rows;    ///< one entry per question and obstacle; empty: row kernels did all
  std::vector<InfiniteBound> infinite;   ///< at most one a question
};

/// Adds seconds to the entry of the same question and obstacle, or appends one.
void add_to(std::vector<NotByRows>& all, const NotByRows& more);

struct BoundOptions {
  int threads = 1;
  std::vector<Target> targets;
  /// The requested bounds and diagnostics; empty: all. If none of them compares with a shadow, the shadow and the
  /// adjoints are not computed. If only `shadow` and `replay` are requested, local and forward bounds are not computed.
  std::vector<BoundRequest> requests;
  /// Bounds for any run are computed for this many elements of an output per sample. Of an output with more, they are
  /// the recorded run's largest elements: the largest of every sample first, then the runners-up. 0: of none.
  std::int64_t most_output_elements = 16;
  /// Number of radii per sample, on average over a block, that any-run bounds recompute by an adjoint of their own if
  /// second-order remainders are large (T-72); none for samples with more than 2^22 numbers on the way. Twice as many
  /// are recomputed in arithmetics with narrow formats, a matrix unit, directed rounding or flushing. The radii with the
  /// largest effect on the targets are chosen. 0: none.
  std::int64_t refined_radii = 512;
  /// Failure probability of one call. It applies separately to all local probabilistic bounds together and to all
  /// end-to-end probabilistic bounds together. 0: no probabilistic bounds are computed.
  double failure_probability = 1e-9;
  /// If set, the trace was made in this process by cpu_evaluator(). It then is the run of the declared arithmetic that
  /// `replay` needs, and no second run is made. Ignored if the trace does not name this library's CPU evaluator.
  bool trace_is_declared_run = false;
  /// Whether readings are tested (LayerBounds::readings). Tests of a few hundred elements say all that they can.
  bool tests_readings = true;

  bool wants(const BoundRequest& request) const;
};

/// Computes all requested bounds of one evaluation from its trace. Local bounds and `forward` hold for the recorded
/// run: they are computed from its recorded values (docs/theory.md T-10 to T-22, T-68, T-69, T-40 to T-53). The other
/// bounds compare the recorded run, or every run of its arithmetic, with a shadow in double (T-60 to T-71).
///   local        componentwise   every node; sums in any order, products also those of a declared matrix unit
///                partial-sums    sums rounded to nearest, in any order (T-68)
///                probabilistic   the same, rounding errors modelled as random (T-74)
///                running         sums rounded to nearest, in the declared order, by their partial sums (T-69)
///                order-aware     products and softmax in a known order (that of a matrix unit is unknown)
///                seed-gamma, seed-gamma/note           products whose gamma_n is finite; a heuristic (T-19)
///   accumulated  forward         every node; sums in the declared order where it is known
///                shadow          every node; |computed - shadow| plus the bound of |shadow - exact|, or the distance
///                                from KnownExact::network (T-70)
///                adjoint/any-order       outputs; every run, sums in any order (T-71)
///                adjoint/order-aware     the same for sums in the declared order, where it is known, and in the orders
///                                        of kernels that were found in the run (Bounder)
///                replay                  outputs; every run of the arithmetic in the declared order. The run is
///                                        executed here and compared with the shadow; not applicable if neither
///                                        the arithmetic (T-97) nor the kernels found (T-171) determine it
///                adjoint/probabilistic   as adjoint/any-order, rounding errors modelled as random (T-74)
///                adjoint/statistical     six standard deviations of sums in random order, an estimate (T-75)
///                rounded-shadow          outputs of arithmetics that round to a narrow format; every run, any order
///                                        (T-76)
///                seed-sum-gamma, seed-sum-gamma/note   graph outputs that depend on a product; a heuristic (T-19)
///   targets      shadow, replay, rounded-shadow, adjoint/...; attribution and condition if requested
/// Guarantee: see BoundResult::guarantee. `shadow` is proven for runs of any program. The others are proven for runs of
///            this library's CPU evaluator that use only IEEE 754 operations and correctly rounded functions, else
///            conditional on BoundResult::condition. They are infinite where a recorded value is not finite. `replay` is
///            proven for this library's CPU evaluators, including their own functions
/// Tightness: errors reach 0.3 and more of componentwise and order-aware on data built for it; forward grows with the
///            products of |W| and is loose for deep networks; shadow and replay are within 1 in 10^4 of the error;
///            docs/campaigns.md compares adjoint bounds with the largest errors found
/// Throws:    UnsoundEnvironment; ShapeMismatch; Unsupported for a function without an accuracy entry, or a matrix unit
///            whose sums are not float32
Bounds bound(const Graph& graph, const Trace& trace, const BoundOptions& options = {});

/// What is known of the exact values of a trace's layers, by node; null: unknown.
struct KnownExact {
  /// The layers of the trace's local_reference: every node's exact function at the recorded operands. Attribution uses
  /// these values instead of computing them again. A probabilistic bound of one sum that a result exceeds is tried on the
  /// data (T-133), and readings of operands are compared (T-134), only with them.
  const std::vector<Tensor<Ball>>* local = nullptr;
  /// The layers of a certified_reference at the trace's inputs: the exact network. Where the error of the shadow in
  /// double is not negligible, bounds compare with these values instead. Probabilistic bounds that the run exceeds are
  /// tried on the data (T-133) only with them. Deep networks, transformers and runs in float64
  /// need them for tight bounds.
  const std::vector<Tensor<Ball>>* network = nullptr;
};

/// By node of the graph: the arithmetic of a kernel that gives every number that the run stored of the node
/// (with_finding()); empty: none is known. An empty vector: of no node.
using FoundArithmetics = std::vector<std::optional<ArithmeticModel>>;

/// Computes bound() for several traces of one graph. Verified norms of the weights are computed once and cached. Const
/// member functions are thread-safe.
class Bounder {
public:
  /// The graph must outlive the Bounder.
  /// Throws:    InvalidArgument unless 0 <= options.failure_probability < 1
  explicit Bounder(const Graph& graph, BoundOptions options = {});
  ~Bounder();
  Bounder(Bounder&&) noexcept;
  Bounder& operator=(Bounder&&) noexcept;
  /// Local bounds and `forward` of nodes whose kernel was found take its order and its matrix unit. So do bounds
  /// "adjoint/order-aware", under the condition that every run computes these nodes by the same kernels.
  /// `kernels` that give every number which the run stored of their nodes, in all samples, let the bound "replay" make the
  /// run again by them where the arithmetic alone does not determine it, under the same condition.
  /// Source:    docs/theory.md T-170, T-171
  /// Throws:    as bound(); ShapeMismatch for `exact`, `found` or `kernels` of another graph
  Bounds operator()(const Trace& trace, const KnownExact& exact = {}, const FoundArithmetics& found = {},
                    const KernelsByNode& kernels = {}) const;
  /// Upper bound of the largest singular value of a constant matrix of the graph; infinite if an element is not finite.
  /// It is computed at first use and cached.
  /// Guarantee: proven
  /// Source:    docs/theory.md T-63, T-129
  /// Throws:    InvalidArgument if the value is not a constant with two axes; UnsoundEnvironment
  Magnitude spectral_norm(ValueId constant) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace driftbound
