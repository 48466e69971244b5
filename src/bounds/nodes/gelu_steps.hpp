#pragma once

#include <optional>
#include <set>
#include <string>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// How far Gelu in a run, computed in the steps of its body, is from Gelu of the run's x:
/// units (u |f| + eta) + each |x| + least.
struct GeluSteps {
  Magnitude units, each, least;
  Magnitude each_by_no_chance;  ///< of `each`: functions, constants and what is not linear in roundings
  bool cubes = false;

  /// Whether no step overflows for |x| <= `farthest`.
  bool stay_finite(Magnitude farthest, double largest) const;
};

/// Empty where the format does not hold the constants of the body.
/// Guarantee: proven
/// Throws:    Unsupported where the arithmetic has no entry for a function of the body
/// Source:    docs/theory.md T-124
std::optional<GeluSteps> gelu_steps(const op::Gelu& gelu, const Setting& setting, std::set<std::string>& conditions);

}  // namespace driftbound::bounds
