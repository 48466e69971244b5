#pragma once

#include <optional>
#include <set>
#include <string>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// The error bound of a Gelu as a fused op: a run that computes f(x) by the steps of the body has an error of at most
/// units (u |f(x)| + eta) + each |x| + least, where x is the operand in the run.
struct GeluSteps {
  Magnitude units, each, least;
  /// The part of `each` that is not modelled as random (T-124, 3): errors of functions and constants, and terms of
  /// second order in the roundings.
  Magnitude each_by_no_chance;
  bool cubes = false;  ///< whether the body computes x^3 (tanh form)

  /// Whether no step overflows for |x| <= `farthest`; `largest` is the largest number of the format.
  bool stay_finite(Magnitude farthest, double largest) const;
};

/// Returns the error bound of a Gelu; empty if the assumptions of T-124, 2 do not hold (the format is too coarse or
/// does not hold the constants of the body, or the root in the tanh form is too inaccurate).
/// Guarantee: proven
/// Throws:    Unsupported if the arithmetic has no entry for a function of the body
/// Source:    docs/theory.md T-124
std::optional<GeluSteps> gelu_steps(const op::Gelu& gelu, const Setting& setting, std::set<std::string>& conditions);

}  // namespace driftbound::bounds
