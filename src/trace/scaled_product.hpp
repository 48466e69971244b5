#pragma once

#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// Adds alpha A B + beta C to a graph. Programs may scale parts of a sum, and add the addend in between: so a scaled
/// product is one of scaled operands, in any order, and a factor is rounded to the type of its operand. Returns the value of the last node, which takes `name`.
/// `inputs`: A, B and, where there is one, C.
ValueId add_scaled_product(Graph& graph, const std::string& name, op::Gemm gemm, std::vector<ValueId> inputs);

}  // namespace driftbound
