#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "bounds/theorems/norms.hpp"

namespace driftbound::bounds {

/// Upper bounds of the 2-norm of each of `rows` equal parts of a tensor.
std::vector<double> row_norms(std::span<const double> values, std::int64_t rows);

/// A node whose operands have norms to hand on.
struct NormRequest {
  const Program& program;
  NodeView view;
  std::vector<const ValueRadii*> operands;
  Magnitude lipschitz;               ///< of a function of one element
  const Shadow* shadow = nullptr;    ///< the centre, where its local errors …
  const Deviation* known = nullptr;  ///< … and those of what moves are added up here for all nodes before; else null
};

/// Upper bounds of how far the exact function of the node moves, in the 2-norm, one for every row of its output; empty
/// where nothing better than the elements' radii is known.
/// Source:    docs/theory.md T-62, T-67
std::optional<std::vector<double>> moved_norms(const NormRequest& request, const Setting& setting,
                                               OperandCache& operands);

/// Row by row; what is empty is not known.
std::optional<std::vector<double>> smaller_norms(std::optional<std::vector<double>> norms,
                                                 const std::optional<std::vector<double>>& more);

}  // namespace driftbound::bounds
