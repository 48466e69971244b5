#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/bounds/rounded_shadow.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// How a statement is known: by a theorem; by a theorem that stands on something measured, documented or assumed; with
/// a failure probability; or not at all (folklore, counted when it fails). Verdicts come from the first two.
enum class Guarantee { proven, conditional, probabilistic, heuristic };
/// Whether a bound speaks about the run it was built from, or about every run of the same arithmetic.
enum class Question { this_run, any_run };
std::string_view name_of(Guarantee guarantee);
std::string_view name_of(Question question);

/// How a product reads its operands: rounded to the arithmetic's input format to nearest with one rule for ties, or as
/// the arithmetic says (cut, or to nearest, ties either way); as they are, then added up by float32 operations; or
/// perhaps this way, perhaps that.
enum class Reading { as_declared, nearest_even, nearest_away, as_given, either_way };
std::string_view name_of(Reading reading);
/// Of two parts of a run: either_way where they differ, the other's where one has none.
std::optional<Reading> joined(std::optional<Reading> one, std::optional<Reading> other);

/// One bound on |computed - exact| for every element of one tensor.
struct BoundResult {
  std::string name;  ///< "componentwise", "forward", "shadow", "adjoint/any-order", "seed-gamma" …
  Guarantee guarantee = Guarantee::proven;
  Question question = Question::this_run;
  std::string theorem;    ///< id in docs/theory.md
  std::string condition;  ///< what a conditional bound stands on; empty for proven
  Tensor<double> values;  ///< upper bounds; infinite: no bound
  /// The part of `values` that curvature, kinks and fixed operands make up (T-71); empty where bounds have none.
  std::vector<double> remainder;
  /// Probabilistic bounds: how likely it is, at most, that any of `values` is exceeded, under the model in `condition`
  /// or, where that is empty, over random bits of this library (T-78).
  std::optional<double> failure_probability;
  /// Why a probabilistic bound, an estimate or "replay" says nothing where it is infinite; empty: it applies everywhere.
  std::string not_applicable;
  double seconds = 0.0;
};

/// Bounds and condition numbers of one node for one evaluation.
struct LayerBounds {
  std::vector<BoundResult> local;        ///< against the exact layer on the computed input
  std::vector<BoundResult> accumulated;  ///< against the exact network on the original input
  /// Dot-product condition numbers kappa = (|W||x| + |b|) / |W x + b| per element, approximate (diagnostics);
  /// infinite at 0 (1 where |W||x| + |b| is 0 too); empty where the node is no dot product.
  Tensor<double> kappa;
  std::int64_t fan_in = 0;
  double gamma_n = 0.0;  ///< gamma_{fan_in} of the accumulator, 0 where there is no sum
  /// Operands and results of the node whose rounding to a narrow format runs may do differently, over all samples;
  /// empty where nothing is rounded so, or "rounded-shadow" is not wanted.
  std::optional<std::int64_t> ambiguous;
  /// How the run was seen to read the operands of the node's product, where a matrix unit may be bypassed, and
  /// "rounded-shadow" is wanted (T-130); else empty.
  std::optional<Reading> reading;
  /// Values that are recorded otherwise than the run of the declared arithmetic has them (T-97), signs of zeros apart;
  /// empty where no such run was made beside the recorded one.
  std::optional<std::int64_t> differing;
};

/// Signed parts of computed - exact of a target, sample by sample: they add up to it but for 10^-9 of a typical error,
/// some 10^-7 of the smallest ones; 10^-3 of errors of doubles.
/// Guarantee: none (diagnostics): the sum is its own check; the split between several operands of one node is a
/// convention
/// Source:    docs/theory.md T-73
struct Attribution {
  std::vector<std::vector<double>> layers;  ///< [node][sample]: what the node's own rounding made of it
  std::vector<double> inputs;               ///< [sample]: what rounding the inputs made of it
};

/// How much relative errors show up in a target, sample by sample, to first order: an error of relative size e in every
/// term of every sum of a layer moves the target by at most e K of itself. Approximate.
/// Guarantee: none (diagnostics)
/// Source:    docs/theory.md T-79
struct Condition {
  std::vector<std::vector<double>> layers;  ///< [node][sample]: K of the layer; infinite where the target is 0
  std::vector<double> target;               ///< [sample]: |target|
};

/// Bounds of one target: one element a sample.
struct TargetBounds {
  /// "shadow", "adjoint/any-order", "adjoint/order-aware", "replay", "adjoint/probabilistic", "adjoint/statistical",
  /// "rounded-shadow"
  std::vector<BoundResult> bounds;
  /// The part of "adjoint/any-order" that is charged at each layer, [node][sample]: local errors and remainders there,
  /// times how much the target moves with them.
  std::vector<std::vector<double>> layer_shares;
  std::optional<Attribution> attribution;   ///< "attribution" among the names that are wanted
  std::optional<Condition> condition;       ///< "condition" among them
  std::optional<RunEnclosures> enclosures;  ///< by the rounded shadow, where there is one
};

/// Bounds from the inputs on that were not found by loops over rows of samples, which are the fast way and for some
/// functions the tighter one, but element by element.
struct NotByRows {
  Question question = Question::any_run;
  std::string obstacle;  ///< what has no such loop: a node, the arithmetic, or samples that loops left undecided
  double seconds = 0.0;  ///< what finding these bounds element by element took
};

struct Bounds {
  std::vector<LayerBounds> layers;       ///< per node
  std::vector<TargetBounds> targets;     ///< as BoundOptions::targets
  std::vector<std::string> assumptions;  ///< what conditional bounds stand on, once each
  std::vector<NotByRows> not_by_rows;    ///< one entry a question and obstacle; empty: all were found by rows
};

/// Adds seconds to the entry of the same question and obstacle, or appends one.
void add_to(std::vector<NotByRows>& all, const NotByRows& more);

struct BoundOptions {
  int threads = 1;
  std::vector<Target> targets;
  /// Wanted bounds; empty: all. Two trajectories cost nothing where none is, the rest where `shadow` alone is.
  std::vector<std::string> names;
  /// Outputs with up to this many elements a sample have adjoint bounds for each of them.
  std::int64_t most_output_elements = 16;
  /// Radii that adjoint bounds of every run find by adjoints of their own where kinks and curvature weigh much (T-72):
  /// so many a sample on average over a block, eight times that where operands are narrow; those that matter most. 0: none
  std::int64_t refined_radii = 128;
  /// Of all probabilistic bounds of one call together: of those of layers alone, and of those from the inputs on; and
  /// of random directions where `shadow` has no small bound without them (T-78). 0: there are none of these bounds, and
  /// every `shadow` is proven.
  double failure_probability = 1e-9;
  /// The trace was made in this process by cpu_evaluator(): it is the run of the declared arithmetic that "replay" needs,
  /// and none is made beside it. Without effect on traces that do not say that this library's CPU evaluator made them.
  bool trace_is_declared_run = false;

  bool wants(std::string_view name) const;
};

/// All bounds of one evaluation from its trace. Local bounds and `forward` speak about this run: they
/// are built from its recorded values (docs/theory.md T-10 to T-22, T-68, T-69, T-40 to T-53). The others hold the run,
/// or every run of its arithmetic, against a shadow in double (T-60 to T-71).
///   local        componentwise   every node; sums in any order, products also those of a declared matrix unit
///                partial-sums    sums rounded to nearest, in any order (T-68)
///                probabilistic   the same, rounding errors taken for chance (T-74)
///                running         sums rounded to nearest, in the declared order, by their partial sums (T-69)
///                order-aware     products and softmax in a known order (of a matrix unit it is not)
///                seed-gamma, seed-gamma/note           products whose gamma_n is finite
///   accumulated  forward         every node; sums in the declared order where it is known
///                shadow          every node; |computed - shadow|, and what the shadow may be off (T-70); where that is
///                                more than 2^-30 of an output's largest element, radii from random directions take
///                                the place of others in layers of which that is so (T-78): probabilistic
///                adjoint/any-order       small outputs; every run, sums in any order (T-71)
///                adjoint/order-aware     the same for sums in the declared order, where it is known
///                replay                  outputs; every run of the arithmetic in the declared order, made here and
///                                        held against the shadow; not applicable where the arithmetic leaves
///                                        something open (T-97)
///                adjoint/probabilistic   the same in any order, rounding errors taken for chance (T-74)
///                adjoint/statistical     six standard deviations of sums in random order, an estimate (T-75)
///                rounded-shadow          small outputs where something is rounded to a narrow format; every run, any
///                                        order (T-76)
///                seed-sum-gamma, seed-sum-gamma/note   graph outputs behind a product
///   targets      shadow, replay, rounded-shadow, adjoint/...; attribution and condition where these names are wanted
/// Guarantee: per BoundResult::guarantee: `shadow` is proven (or probabilistic, over random
///            bits of this library) whatever made the run; the others are proven for runs of
///            this library's CPU evaluator that use IEEE 754 operations and correctly rounded functions only, else
///            conditional on BoundResult::condition; infinite where a recorded value is not finite. `replay` is proven
///            for this library's CPU evaluators, its own functions included
/// Tightness: componentwise and order-aware are approached to 0.3 and more on data built for it;
///            forward grows with the products of |W| and is loose on deep networks; shadow and replay are the error
///            to 1 in 10^4 or better; how far adjoint bounds are from the largest errors is measured in docs/campaigns.md
/// Throws:    UnsoundEnvironment, ShapeMismatch, Unsupported (no accuracy entry for a function, a matrix unit
///            whose sums are no float32)
Bounds bound(const Graph& graph, const Trace& trace, const BoundOptions& options = {});

/// bound() for several traces of one graph: norms of weights are verified once. Thread-safe when const.
class Bounder {
public:
  /// The graph must outlive it.
  explicit Bounder(const Graph& graph, BoundOptions options = {});
  ~Bounder();
  Bounder(Bounder&&) noexcept;
  Bounder& operator=(Bounder&&) noexcept;
  /// `exact`, if given: by node, its exact function on what the trace recorded of its operands (the layers of a
  /// local_reference), which attribution then need not find again. No bound depends on it.
  /// Throws:    as bound(); ShapeMismatch for `exact` of another trace
  Bounds operator()(const Trace& trace, const std::vector<Tensor<Ball>>* exact = nullptr) const;
  /// Upper bound of the largest singular value of a constant matrix of the graph, found when it is first asked for or
  /// needed; infinite where an element is not finite.
  /// Guarantee: proven
  /// Source:    docs/theory.md T-63, T-129
  /// Throws:    InvalidArgument for what is no constant of two axes, UnsoundEnvironment
  Magnitude spectral_norm(ValueId constant) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace driftbound
