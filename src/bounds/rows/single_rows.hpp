#pragma once

#include <cstddef>
#include <vector>

#include "bounds/rows/run_state.hpp"

namespace driftbound::bounds {

/// Slopes, charges and radii in single precision for the adjoints of refined radii (RefinedRadii). Slopes of smooth
/// functions that are nearly flat are set to 0, and the effect of the omitted slope is charged instead.
/// Guarantee: charges and radii are rounded up; slopes are 0 or at least 2^-126 in magnitude
/// Source:    docs/theory.md T-72
class SingleRows {
public:
  /// Computes slopes and charges of all nodes up to `last` and of the inputs. Buffers are reused.
  void take(const RunState& state, std::size_t last);

  /// Returns the slopes of a function of one element, [rows, size]; empty for other nodes.
  const std::vector<float>& slopes(std::size_t node) const { return slopes_[node]; }
  /// Returns sigma + kappa + |s| E of omitted slopes s, [rows, size]; of an input, its radii. `in_order`: of runs in
  /// the declared order.
  const std::vector<float>& charges(ValueId id, bool in_order) const { return charges_[in_order ? 1 : 0][id]; }
  /// Returns the radii of a value, [rows, size]; computed at the first call.
  const std::vector<float>& radii(const RunState& state, ValueId id, bool in_order);

private:
  using ByValue = std::vector<std::vector<float>>;
  void take_slopes(const RunState& state, std::size_t node);
  void take_charges(const RunState& state, std::size_t node, bool in_order);

  std::vector<std::vector<float>> slopes_;  ///< by node
  ByValue charges_[2], radii_[2];           ///< [0]: runs in any order; [1]: in the declared order
};

}  // namespace driftbound::bounds
