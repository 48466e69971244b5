#pragma once

#include "analysis/comparison.hpp"

namespace driftbound::analysis {

/// Milliseconds that a bound of an output costs a sample. Of `forward`, which goes through the layers, the time of all
/// of them; bounds by two trajectories are computed together and each has the time of all.
double milliseconds_a_sample(const Comparison& comparison, const BoundSummary& bound);

}  // namespace driftbound::analysis
