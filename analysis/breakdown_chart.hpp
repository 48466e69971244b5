#pragma once

#include <string>

#include "analysis/breakdown.hpp"

namespace driftbound::analysis {

/// Bars as SVG, a row per layer in the order of the graph: the signed part of the error, and the share of the bound.
/// The layers with the largest bars, at most 24; what is left out is said.
std::string breakdown_chart(const Breakdown& breakdown);

}  // namespace driftbound::analysis
