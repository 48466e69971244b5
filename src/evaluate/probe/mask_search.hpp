#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "driftbound/evaluate/summation_tree.hpp"

namespace driftbound::probe {

using Pair = std::pair<std::int64_t, std::int64_t>;
/// For each pair of summands: how many summands lie below the lowest node that has both below it.
using CountsBelow = std::function<std::vector<std::int64_t>(const std::vector<Pair>&)>;

/// The summation tree over n summands that has these counts, from as few pairs as it takes: n - 1 where the first
/// summand is added first, some n log n for balanced trees. Pairs that do not depend on each other are asked for
/// together.
/// Throws:    Unsupported where the counts are those of no tree
/// Source:    docs/probe.md
SummationTree find_tree(std::int64_t n, const CountsBelow& counts);

}  // namespace driftbound::probe
