#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bounds/theorems/roundings.hpp"
#include "driftbound/model/graph.hpp"
#include "model/variant.hpp"

namespace driftbound {
class ProgramCache;  // program/program_cache.hpp
}

namespace driftbound::bounds {

class OperandCache;  // operand_cache.hpp

// The types that all bounds of single nodes use: settings, a node with its values, and radii.

/// The settings that all bounds of one evaluation share.
struct Setting {
  const ArithmeticModel* arithmetic = nullptr;
  Machine machine;
  int threads = 1;
  bool is_own_run = false;           ///< the arithmetic is that of a CPU evaluator of this library (own_run.hpp)
  OperandCache* operands = nullptr;  ///< cache of packed matrices; may be null
  ProgramCache* programs = nullptr;  ///< cache of compiled programs; may be null
  /// By node of the graph: arithmetics of kernels that were found in the recorded run (T-170); null: none.
  const std::vector<std::optional<ArithmeticModel>>* found = nullptr;
  bool rows_are_apart = false;  ///< row kernels process a whole block or reject it: rows do not depend on other rows
  double tail_factor = 0.0;     ///< lambda of local probabilistic bounds (T-74); 0: these are not computed
  bool wants_running = true;    ///< whether local bounds by the partial sums of the declared order are computed (T-69)
};

/// One node with the values of its inputs and of its output: recorded values, or centres.
struct NodeView {
  const Node* node = nullptr;
  std::vector<const Tensor<double>*> inputs;
  const Tensor<double>* output = nullptr;

  const Tensor<double>& input(std::size_t slot) const { return *inputs.at(slot); }
  double y(std::size_t i) const { return output->values[i]; }
};

/// Radii: one upper bound per element; empty: all 0.
using Radii = std::span<const double>;

inline Magnitude radius_at(Radii radii, std::size_t i) {
  return radii.empty() ? Magnitude() : Magnitude(radii[i]);
}

}  // namespace driftbound::bounds
