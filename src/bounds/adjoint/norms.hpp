#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "bounds/theorems/norms.hpp"

namespace driftbound::bounds {

// Bounds of the difference of two trajectories in the 2-norm of every row (docs/theory.md T-62, T-67).

/// Returns upper bounds of the 2-norms of the `rows` equal consecutive parts of a tensor.
std::vector<double> row_norms(std::span<const double> values, std::int64_t rows);

/// A node through which the norms of its operands are propagated.
struct NormRequest {
  const Program& program;
  NodeView view;
  std::vector<const ValueRadii*> operands;
  Magnitude lipschitz;  ///< Lipschitz constant of a function of one element within the radii; infinite: unknown
  /// For the maps of T-67: the shadow, and the deviation with the local errors of both trajectories at all nodes before
  /// this one. Null where the centre is not a shadow by T-61; T-67 is then not used.
  const Shadow* shadow = nullptr;
  const Deviation* known = nullptr;
};

/// Returns upper bounds of the change of the node's exact function in the 2-norm, one for every row of its output.
/// Returns nothing if no theorem gives more than the radii of the elements do.
/// Source:    docs/theory.md T-62, T-67
std::optional<std::vector<double>> moved_norms(const NormRequest& request, const Setting& setting,
                                               OperandCache& operands);

/// Returns the smaller of two bounds for every row; an empty argument means that no bound is known.
std::optional<std::vector<double>> smaller_norms(std::optional<std::vector<double>> norms,
                                                 const std::optional<std::vector<double>>& more);

}  // namespace driftbound::bounds
