#pragma once

#include <functional>
#include <optional>
#include <string>

#include "driftbound/evaluate/probe.hpp"
#include "evaluate/probe/tree_index.hpp"

namespace driftbound::probe {

/// The arithmetic in which sums are formed along a tree. Sums whose rounding is hidden are float32 numbers, rounded to
/// nearest even, those of steps toward zero.
struct TreeArithmetic {
  ProbedReading left, right;
  ProbedResult result;
  std::optional<SumRounding> additions;
  std::optional<StepArithmetic> steps;
  std::optional<SumRounding> parts;  ///< of the sums of some nodes
};

/// Why sums in this arithmetic cannot be computed here; empty where they can.
std::string obstacle_to_run(const TreeArithmetic& arithmetic);

/// The sum of a(k) b(k) along the tree of a class of elements, in an arithmetic without obstacle.
float run_along(const TreeIndex& index, const ElementClass& elements, const TreeArithmetic& arithmetic,
                const std::function<float(std::int64_t)>& a, const std::function<float(std::int64_t)>& b);

}  // namespace driftbound::probe
