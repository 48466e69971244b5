#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/ball.hpp"

namespace driftbound::analysis {

/// What one layer has in an error and in its bound.
struct LayerPart {
  std::string layer;
  double part = 0.0;  ///< of the error, signed: what the layer's own rounding made of it
  std::optional<double>
      bound_share;  ///< of adjoint/any-order, 0 to 1; none where that bound is not finite or not wanted
  /// What multiplies what: a relative error of every term of the layer's sums, times `condition`, is that of the
  /// target; `local` is what the layer's part of adjoint/any-order comes to, divided by that.
  std::optional<double> condition, local;
};

/// Where the error of one number comes from, at the sample where it is largest: error = inputs + sum of the parts, but
/// for about 10^-9 of it and the shadow's own error.
/// Guarantee: none (diagnostics)
/// Source:    docs/theory.md T-73, shares T-71
struct Breakdown {
  std::int64_t sample = 0;
  double error = 0.0;             ///< computed - exact, signed, to nearest; never 0
  double inputs = 0.0;            ///< what rounding the inputs made of it
  std::vector<LayerPart> layers;  ///< every layer, in the order of the graph

  double share_of_error(double part) const { return part / error; }
};

/// The breakdown at the largest finite error among samples that come block by block.
class BreakdownKeeper {
public:
  /// One block: `computed` and `exact` hold one number a sample, `target` their bounds and attribution.
  void add(const std::vector<double>& computed, const std::vector<Ball>& exact, const TargetBounds& target,
           std::int64_t first_sample);

  /// None where nothing was attributed, where there is no error, and where the parts miss it by more than a hundredth:
  /// then it is no larger than the rounding of a double, which the shadow itself has.
  std::optional<Breakdown> finish(const Graph& graph) const;

private:
  std::optional<Breakdown> largest_;  ///< layers without names
};

}  // namespace driftbound::analysis
