#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "driftbound/evaluate/summation_tree.hpp"

namespace driftbound::probe {

/// Summands of one node that are in none of the parts found so far, one of which is asked for next to each of the others.
struct OpenPart {
  std::vector<std::int64_t> members;
  std::int64_t pivot = 0;     ///< one of them
  std::int64_t limit = 0;     ///< summands below the node
  std::int64_t outside = -1;  ///< a summand below the node that is no member; -1: there is no node above
};

/// For each part, for each of its members but the pivot: how many summands lie below the lowest node that has the pivot and
/// the member below it.
using CountsBelow = std::function<std::vector<std::vector<std::int64_t>>(const std::vector<OpenPart>&)>;

/// The summation tree over n summands that has these counts, from as few pairs as it takes: n - 1 where the first
/// summand is added first, some n log n for balanced trees. Parts that do not depend on each other are asked for
/// together.
/// Throws:    Unsupported where the counts are those of no tree
/// Source:    docs/probe.md
SummationTree find_tree(std::int64_t n, const CountsBelow& counts);

}  // namespace driftbound::probe
