#include "analysis/cost.hpp"

namespace driftbound::analysis {

double milliseconds_a_sample(const Comparison& comparison, const BoundSummary& bound) {
  double seconds = bound.seconds;
  if (bound.name == "forward") {
    seconds = 0.0;
    for (const LayerSummary& layer : comparison.layers)
      if (const BoundSummary* step = find_bound(layer.accumulated, bound.name)) seconds += step->seconds;
  }
  return comparison.samples > 0 ? 1000.0 * seconds / static_cast<double>(comparison.samples) : 0.0;
}

}  // namespace driftbound::analysis
