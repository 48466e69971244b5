#pragma once

#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::soundness {

/// What the CPU evaluator makes of one node by itself, operands given by value.
/// Domain:    the first axis of what `varies` is the batch
StoredTensor evaluated_alone(const Node& node, const std::vector<StoredTensor>& values, const std::vector<bool>& varies,
                             const ArithmeticModel& arithmetic);

}  // namespace driftbound::soundness
