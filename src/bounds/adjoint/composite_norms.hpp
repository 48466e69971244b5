#pragma once

#include <optional>
#include <vector>

#include "bounds/adjoint/norms.hpp"

namespace driftbound::bounds {

/// moved_norms() where the node ends a map of several that is bounded as a whole: what is left of x when its mean is
/// taken off, the root of a mean of squares, a vector over that, exponentials over their sum; and Softmax near its
/// centre. With the local errors of all nodes of the map but the last. Empty for other nodes.
/// Guarantee: proven, if the question says what is known
/// Source:    docs/theory.md T-67
std::optional<std::vector<double>> composite_norms(const NormRequest& request);

/// The largest 2-norms of matrices of a product, and how often one of the right ones is used.
struct AttentionFactors {
  Magnitude weights, values;
  std::size_t uses_of_values = 1;
};

/// moved_norms() where the node multiplies rows of a softmax, or of exponentials over their sum, by values; empty for
/// others.
/// Guarantee: as composite_norms()
/// Source:    docs/theory.md T-67
std::optional<std::vector<double>> attended_norms(const NormRequest& request, const AttentionFactors& factors);

}  // namespace driftbound::bounds
