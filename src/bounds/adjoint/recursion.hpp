#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "bounds/adjoint/sweep.hpp"

namespace driftbound::bounds {

/// One element of one row of a value.
struct RowElement {
  std::int64_t row = 0;
  std::size_t element = 0;  ///< within the row
};

/// Which radii are worth an adjoint of their own: how much every element's remainder weighs in the targets.
struct Refinement {
  /// By value, of every element: the largest |d| over the targets, divided by what they amount to without remainders.
  std::vector<std::vector<double>> weight;
  double allowance = 0.0;          ///< of weight times remainder that a row may keep at one node
  std::int64_t most_elements = 0;  ///< of one row at one node
};

/// The elements of a node's output whose operands' radii are to be refined: in every row those with the largest weight
/// times remainder, until what is left adds up to no more than the allowance.
/// Shapes:    `weight` and `remainder` [rows * elements]
std::vector<RowElement> worth_refining(const std::vector<double>& weight, const std::vector<double>& remainder,
                                       std::int64_t rows, const Refinement& refinement);

/// Radii of chosen elements of a value, each by an adjoint of its own on the nodes before it.
/// Shapes:    one result an element
/// Domain:    infinite for a network that has no with_rows(); `deviation` complete up to the value
/// Source:    docs/theory.md T-72
std::vector<double> radii_by_adjoints(const Network& network, const Shadow& shadow, const Deviation& deviation,
                                      ValueId value, const std::vector<RowElement>& elements, const Setting& setting);

}  // namespace driftbound::bounds
