#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bounds/adjoint/sweep.hpp"

namespace driftbound::bounds {

/// T-72: remainders of a larger share of a bound call for radii by adjoints of their own …
inline constexpr double large_remainder = 0.05;
/// … until no more than this is left of them at all nodes together, next to what local errors make up …
inline constexpr double remainder_left = 0.03;
/// … and of no more elements of one row at one node.
inline constexpr std::int64_t most_refined_elements = 256;

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
  double least = 0.0;              ///< weight times remainder of an element that is worth it
};

/// Whether a node is a function of one element, of an operand whose radii can be refined.
bool may_be_refined(const Program& program, const Node& node);

/// The elements of a node's output whose operands' radii are to be refined: in every row those with the largest weight
/// times remainder, until what is left adds up to no more than the allowance.
/// Shapes:    `weight` and `remainder` [rows * elements]
std::vector<RowElement> worth_refining(const std::vector<double>& weight, const std::vector<double>& remainder,
                                       std::int64_t rows, const Refinement& refinement);

/// Refinement::least with which nodes whose remainders are these, or less, have no more than `most` elements refined:
/// those that matter most, whatever their row or node. 0 where all may be.
/// Shapes:    `remainders` by value; empty: nothing is refined there
double least_worth_refining(const std::vector<std::vector<double>>& remainders, std::int64_t rows,
                            const Refinement& refinement, std::int64_t most);

/// Radii of chosen elements of values, each by an adjoint of its own on the nodes before it. What is the same for all
/// elements is set up once.
/// Source:    docs/theory.md T-72
class AdjointRadii {
public:
  AdjointRadii(const Program& program, const Shadow& shadow, const Setting& setting);

  /// Shapes:    one result an element
  /// Domain:    infinite for a network that has no with_rows(); `deviation` complete up to the value
  std::vector<double> operator()(const Deviation& deviation, ValueId value, const std::vector<RowElement>& elements);

private:
  /// The network with as many rows as elements, and memory for what varies.
  struct OneRowEach {
    std::shared_ptr<const Program> program;
    Shadow shadow;
    std::vector<Deviation> deviation;  ///< one
  };
  OneRowEach* with_rows(std::size_t rows);
  std::vector<double> of_part(OneRowEach& rows, const Deviation& deviation, ValueId value,
                              std::span<const RowElement> part) const;

  const Program& program_;
  const Shadow& shadow_;
  const Setting& setting_;
  const std::size_t rows_at_once_;
  std::map<std::size_t, std::optional<OneRowEach>> by_rows_;
};

}  // namespace driftbound::bounds
