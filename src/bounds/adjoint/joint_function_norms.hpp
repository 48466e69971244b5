#pragma once

#include <optional>
#include <vector>

#include "bounds/adjoint/norms.hpp"

namespace driftbound::bounds {

/// moved_norms() of a product whose factors are functions of one operand, element by element: Gelu and the like. Empty
/// for other nodes.
/// Guarantee: proven, if the question says what is known
/// Source:    docs/theory.md T-67
std::optional<std::vector<double>> joint_function_norms(const NormQuestion& question, const NormRules& rules);

}  // namespace driftbound::bounds
