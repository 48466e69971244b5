#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bounds/rows/run_step.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// Some rows of a network that went forward.
struct RunState {
  const Program& program;
  std::span<const std::size_t> sizes;                     ///< elements a row, by value
  std::span<const std::unique_ptr<const RunStep>> steps;  ///< by node
  const RunRequest& request;
  std::vector<RunRows>& rows;      ///< by value
  std::vector<RunErrors>& errors;  ///< by node
};

/// The operand of a function of one element.
const RunRows* operand_of_function(const RunState& state, std::size_t node);

}  // namespace driftbound::bounds
