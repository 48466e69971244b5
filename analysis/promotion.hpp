#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/drift.hpp"

namespace driftbound::analysis {

/// How a layer is computed in place of the run's own way.
///   float64      in float64, and rounded once to the format of its result
///   three_tf32   a product whose operands are each split into two numbers of TF32: three products, the small ones first
///   compensated  a product whose float32 sums keep what each addition loses, and add that at the end
enum class Remedy { float64, three_tf32, compensated };

struct Promotion {
  std::size_t node = 0;
  Remedy remedy = Remedy::float64;
};

/// "'fc2' by 3xTF32"
std::string text_of(const Graph& graph, const Promotion& promotion);

/// What is asked for: a layer and a remedy ("fc2:3xtf32"; a layer alone: float64).
/// Throws:    InvalidArgument listing layers or remedies; Unsupported for a layer that depends on no input, or that is
///            no product where the remedy needs one
Promotion promotion_of(const Graph& graph, std::string_view text);

/// A layer's own errors (next to the layer in float64) with a remedy are `same` times those without it, and other numbers
/// that have nothing to do with those, whose root mean square is `other` times theirs.
struct ErrorLeft {
  double same = 0.0, other = 0.0;
};

/// A layer computed otherwise from what it reads in a run.
struct PromotedLayer {
  StoredTensor result;
  ErrorLeft left;
};
/// Source:    docs/theory.md T-142 for three_tf32 and compensated
/// Throws:    Unsupported where the remedy does not serve the run's arithmetic or the length of the sums
PromotedLayer promoted_layer(const Graph& graph, const Trace& base, const Promotion& promotion);

/// The run `base` with that layer, which all layers behind it read. Its arithmetic says no order of sums, except that of
/// float64, which is the base's. Bounds that execute what a run rounds (T-76, T-97) are not for it.
/// `evaluate`: makes a run of a graph on inputs, as the run `base` was made
/// Throws:    what the evaluators throw
Trace promoted_run(const Graph& graph, const Trace& base, const Promotion& promotion, const StoredTensor& result,
                   const std::function<Trace(const Graph&, const Inputs&)>& evaluate);

/// The root mean square error of the number of interest that a promotion is expected to leave: an estimate, by first-order
/// contributions of layers (T-73). Empty: errors are not attributed.
std::optional<double> estimate_rms(const TracedRun& run, const Promotion& promotion, const ErrorLeft& left);

/// The layers whose promotion to float64 is predicted to leave a smaller error of the number of interest (estimate_rms()),
/// the smallest first. Every layer is evaluated by itself in float64.
std::vector<std::size_t> most_promising(const TracedRun& run);

}  // namespace driftbound::analysis
