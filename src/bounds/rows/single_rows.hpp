#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "bounds/rows/run_state.hpp"

namespace driftbound::bounds {

/// What rows of radii are multiplied by and charged with, in single precision. Where smooth functions are nearly flat,
/// rows end: their slopes are 0, and what they could hand on is charged.
/// Guarantee: charges and radii are rounded up; no slope is below 2^-126 but 0
/// Source:    docs/theory.md T-72
class SingleRows {
public:
  /// Of all nodes up to `last` and what goes into them, from memory that is taken again.
  void take(const RunState& state, std::size_t last);

  /// By node, of an operand; empty: it has none.
  const std::vector<float>& slopes(std::size_t node, std::size_t slot) const { return slopes_[node][slot]; }
  /// By value, [rows, size].
  const std::vector<float>& charges(ValueId id, bool in_order) const { return charges_[in_order ? 1 : 0][id]; }
  /// The same, found where they are asked for.
  const std::vector<float>& radii(const RunState& state, ValueId id, bool in_order);

private:
  using ByValue = std::vector<std::vector<float>>;
  void take_slopes(const RunState& state, std::size_t node);
  void take_charges(const RunState& state, std::size_t node, bool in_order);

  void take_pair_slopes(const RunState& state, std::size_t node);
  void charge_lost_slopes(const RunState& state, std::size_t node, bool in_order);

  std::vector<std::array<std::vector<float>, 2>> slopes_;  ///< by node and operand
  ByValue charges_[2], radii_[2];                          ///< in any order, and in the declared one
};

}  // namespace driftbound::bounds
