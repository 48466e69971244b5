#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bounds/rows/run_step.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// The state of some rows of a block after the forward pass of a RunWalk: centres, radii and local errors.
struct RunState {
  const Program& program;
  std::span<const std::size_t> sizes;                     ///< elements per row, by value
  std::span<const std::unique_ptr<const RunStep>> steps;  ///< by node
  const RunRequest& request;
  std::vector<RunRows>& rows;      ///< by value
  std::vector<RunErrors>& errors;  ///< by node
};

/// Returns the operand of a node that is a function of one element and can be refined; null for other nodes.
const RunRows* operand_of_function(const RunState& state, std::size_t node);

}  // namespace driftbound::bounds
