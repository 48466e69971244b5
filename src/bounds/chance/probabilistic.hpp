#pragma once

#include "bounds/chance/node_chance.hpp"

namespace driftbound::bounds {

/// A node's roundings as martingale differences: those of sums, differences, products and quotients to nearest, each at
/// its largest.
/// Guarantee: proven, as to the sizes; that they have mean 0 is the model
/// Source:    docs/theory.md T-74
NodeChance martingale_roundings(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
