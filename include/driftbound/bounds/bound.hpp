#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

namespace bounds {
struct Rules;  // bounds/rules.hpp
const Rules& default_rules();
}  // namespace bounds

/// How a statement is known: by a theorem; by a theorem that stands on something measured, documented or assumed; with
/// a failure probability; or not at all (folklore, counted when it fails). Verdicts come from the first two.
enum class Guarantee { proven, conditional, probabilistic, heuristic };
/// Whether a bound speaks about the run it was built from, or about every run of the same arithmetic.
enum class Question { this_run, any_run };
std::string_view name_of(Guarantee guarantee);
std::string_view name_of(Question question);

/// One bound on |computed - exact| for every element of one tensor.
struct BoundResult {
  std::string name;  ///< "componentwise", "partial-sums", "order-aware", "forward", "seed-gamma" …
  Guarantee guarantee = Guarantee::proven;
  Question question = Question::this_run;
  std::string theorem;    ///< id in docs/theory.md
  std::string condition;  ///< what a conditional bound stands on; empty for proven
  Tensor<double> values;  ///< upper bounds; infinite: no bound
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
};

struct Bounds {
  std::vector<LayerBounds> layers;       ///< per node
  std::vector<std::string> assumptions;  ///< what conditional bounds stand on, once each
};

struct BoundOptions {
  const bounds::Rules* rules = nullptr;  ///< nullptr: default_rules(); tests inject faults here
  int threads = 1;
};

/// All bounds of one evaluation from its trace. Local bounds and `forward` speak about this run: they
/// are built from its recorded values (docs/theory.md T-10 to T-22, T-68, T-40 to T-53).
///   local        componentwise   every node; sums in any order, products also those of a declared matrix unit
///                partial-sums    products rounded to nearest, in any order, by the sizes of partial sums (T-68);
///                                never above componentwise
///                order-aware     products and softmax, where the order is known (of a matrix unit it is not);
///                                never above componentwise
///                seed-gamma, seed-gamma/note           products whose gamma_n is finite
///   accumulated  forward         every node; sums in the declared order where it is known
///                seed-sum-gamma, seed-sum-gamma/note   graph outputs
/// Guarantee: per BoundResult::guarantee: proven for runs of this library's CPU evaluator that use IEEE 754
///            operations and correctly rounded functions only, else conditional on BoundResult::condition;
///            infinite where a recorded value is not finite
/// Tightness: componentwise and order-aware are approached to 0.3 and more on data built for it;
///            forward grows with the products of |W| and is loose on deep networks
/// Throws:    UnsoundEnvironment, ShapeMismatch, Unsupported (no accuracy entry for a function, a matrix unit
///            whose sums are no float32)
Bounds bound(const Graph& graph, const Trace& trace, const BoundOptions& options = {});

}  // namespace driftbound
