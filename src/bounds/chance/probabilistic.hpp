#pragma once

#include "bounds/chance/node_chance.hpp"

namespace driftbound::bounds {

/// Whether an op makes one rounding, of the exact result of its operands.
bool rounds_once(const Op& op);

/// Splits a node's local errors by T-74: the roundings to nearest of sums, differences, products and quotients are
/// martingale differences, bounded by their largest magnitudes; all other errors are in `rest`.
/// Guarantee: proven for the magnitudes; that the roundings have mean 0 is the model
/// Source:    docs/theory.md T-74
NodeChance martingale_roundings(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
