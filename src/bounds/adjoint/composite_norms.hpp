#pragma once

#include <optional>
#include <vector>

#include "bounds/adjoint/norms.hpp"

namespace driftbound::bounds {

/// Computes moved_norms() for the last node of a map of several nodes that is bounded as a whole: x minus its mean, the
/// root of a mean of squares, c over that root, exponentials over their sum; also for Softmax near its centre. The
/// local errors of all nodes of the map except the last are included. Returns nothing for other nodes, and if
/// `request.known` or `request.shadow` is null.
/// Guarantee: proven
/// Source:    docs/theory.md T-67
std::optional<std::vector<double>> composite_norms(const NormRequest& request);

/// Norms of the centres of both factors in a product weights * values.
struct AttentionFactors {
  Magnitude weights, values;       ///< largest spectral norm among the matrices of the factor
  std::size_t uses_of_values = 1;  ///< number of products that use the most used right matrix
};

/// Computes the 2-norm bound of attention: a product whose left factor has rows of shares, that is of Softmax or of
/// exponentials over their sum. Returns nothing for other nodes, and if `request.known` or `request.shadow` is null.
/// Guarantee: as composite_norms()
/// Source:    docs/theory.md T-67
std::optional<std::vector<double>> attended_norms(const NormRequest& request, const AttentionFactors& factors);

/// Returns the values of which composite_norms() and attended_norms() read radii, errors and centres at this node, except
/// the node's own result; empty where both return nothing. Of `request` only the program, the node, and what is known of
/// constants are read.
std::vector<ValueId> values_of_composite(const NormRequest& request);

}  // namespace driftbound::bounds
