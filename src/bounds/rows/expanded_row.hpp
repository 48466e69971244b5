#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "bounds/adjoint/joint_functions.hpp"
#include "bounds/nodes/linear.hpp"
#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// One row of a function, expanded at the shadow by the theorems of its op, element by element.
struct ExpandedRow {
  Linearised linear;
  std::vector<double> added;                     ///< sigma of T-60: the rounding errors of the shadow and of the run
  std::vector<double> moved;                     ///< upper bounds of |run - shadow|
  Magnitude joint_norm = Magnitude::infinite();  ///< T-125: bound of the 2-norm by which the exact function moves

  /// Copies sigma and kappa (T-60) to a block, from its element `first` on.
  void write_errors(std::size_t first, std::vector<double>& added_to, std::vector<double>& remainder_to) const;
  void write_moved(std::size_t first, std::vector<double>& moved_to) const;
};

/// Expands a row at the centre view.inputs. `radii`: how far a run may be from the centre, by operand; `y_error` bounds
/// the error of view.output; `joint` returns the bounds of T-125 for the node's expansion, or nothing.
/// Guarantee: proven for runs in any order, or in the declared order
/// Source:    docs/theory.md T-60, T-65, T-66, T-125
ExpandedRow expanded_row(const NodeView& view, const std::vector<Radii>& radii, const std::vector<double>& y_error,
                         bool any_order, const Setting& setting,
                         const std::function<std::optional<JointMove>(const Linearised&)>& joint = {});

}  // namespace driftbound::bounds
