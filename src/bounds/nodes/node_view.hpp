#pragma once

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

/// What every bound of one evaluation shares.
struct Setting {
  const ArithmeticModel* arithmetic = nullptr;
  Machine machine;
  int threads = 1;
  bool is_own_run = false;           ///< the arithmetic is what the trace says it is (own_run.hpp)
  OperandCache* operands = nullptr;  ///< matrices packed before; may be null
  ProgramCache* programs = nullptr;  ///< programs compiled before; may be null
  bool rows_are_apart = false;  ///< loops over rows take all rows of a block or none, so that no row decides for others
  double tail_factor = 0.0;     ///< lambda of local probabilistic bounds (T-74); 0: none are wanted
  bool wants_running = true;    ///< local bounds by the partial sums of the declared order (T-69)
};

/// One node with the recorded values of its inputs and its output.
struct NodeView {
  const Node* node = nullptr;
  std::vector<const Tensor<double>*> inputs;
  const Tensor<double>* output = nullptr;

  const Tensor<double>& input(std::size_t slot) const { return *inputs.at(slot); }
  double y(std::size_t i) const { return output->values[i]; }
};

/// Upper bounds per element; empty: all 0.
using Radii = std::span<const double>;

inline Magnitude radius_at(Radii radii, std::size_t i) {
  return radii.empty() ? Magnitude() : Magnitude(radii[i]);
}

}  // namespace driftbound::bounds
