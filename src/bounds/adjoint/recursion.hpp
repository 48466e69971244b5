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

// Selective refinement (docs/theory.md T-72): chooses the radii that are worth an adjoint of their own, and computes
// them.

/// Radii are refined if the remainders exceed this share of a bound.
inline constexpr double large_remainder = 0.05;
/// Refinement at all nodes together aims at remainders of at most this multiple of the contribution of local errors.
inline constexpr double remainder_left = 0.03;
/// Largest number of elements that are refined in one row at one node.
inline constexpr std::int64_t most_refined_elements = 256;

/// One element of one row of a value.
struct RowElement {
  std::int64_t row = 0;
  std::size_t element = 0;  ///< within the row
};

/// The criteria by which radii are chosen for refinement. The cost of an element is its weight times its remainder: its
/// contribution to a target, relative to the target's local part.
struct Refinement {
  /// By value, for every element: the largest |d| / (contribution of local errors to the bound) over the targets.
  std::vector<std::vector<double>> weight;
  double allowance = 0.0;          ///< sum of the costs that may remain in one row at one node
  std::int64_t most_elements = 0;  ///< largest number of elements refined in one row at one node
  double least = 0.0;              ///< elements with a smaller cost are not refined
};

/// Rows of more numbers than that have no radii refined and do not go by rows: every radius costs a sweep over them.
inline constexpr std::size_t most_numbers_of_row = std::size_t{1} << 22;

/// Returns how many numbers of a row depend on the inputs: what one adjoint of the row goes through.
std::size_t numbers_of_row(const Program& program);

/// Whether a node is a function of one element (or a Gelu) whose operand depends on the inputs, so that the operand's
/// radii can be refined.
bool may_be_refined(const Program& program, const Node& node);

/// Returns the elements of a node's output whose operands' radii are to be refined: in every row those with the largest
/// costs, until the costs of all others add up to at most the allowance.
/// Shapes:    `weight` and `remainder` [rows * elements]
std::vector<RowElement> worth_refining(const std::vector<double>& weight, const std::vector<double>& remainder,
                                       std::int64_t rows, const Refinement& refinement);

/// Returns a value for Refinement::least with which at most `most` elements are refined, over all rows and nodes, if
/// the nodes have these remainders or smaller ones. The elements with the largest costs remain. Returns 0 if at most
/// `most` elements would be refined anyway.
/// Shapes:    `remainders` by value; empty: nothing is refined at this value
double least_worth_refining(const std::vector<std::vector<double>>& remainders, std::int64_t rows,
                            const Refinement& refinement, std::int64_t most);

/// Computes radii of chosen elements, each by an adjoint of its own over the nodes before the element. Programs and
/// memory are set up once and reused.
/// Source:    docs/theory.md T-72
class AdjointRadii {
public:
  AdjointRadii(const Program& program, const Shadow& shadow, const Setting& setting);

  /// Returns one radius per element; infinite if the program has no with_rows().
  /// Domain:    `deviation` must be complete up to `value`
  std::vector<double> operator()(const Deviation& deviation, ValueId value, const std::vector<RowElement>& elements);

private:
  /// The program with one row per element, and the shadow and the deviation of these rows.
  struct OneRowEach {
    std::shared_ptr<const Program> program;
    Shadow shadow;
    std::vector<Deviation> deviation;  ///< exactly one entry
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
