#pragma once

#include <optional>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// Compares the recorded results of a norm, an attention or a Gelu with the exact results of ops that are computed in its
/// place by mistake: another epsilon, another scale, another form. `exact` are the exact results of the op itself at the
/// recorded operands. Empty for other ops, and where no exact result is finite.
/// Source:    docs/theory.md T-135
std::optional<ReadingTest> test_op_variants(const NodeView& view, const Setting& setting, const Tensor<Ball>& exact);

}  // namespace driftbound::bounds
