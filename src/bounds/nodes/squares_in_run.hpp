#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// A value in a run that is not recorded: every element is within its radius of the centre, and at least `least`.
struct RunValue {
  const Tensor<double>* centre = nullptr;
  Radii radii;
  Radii least;  ///< empty: not known

  /// The largest known lower bound of an element.
  double least_at(std::size_t i) const;
};

/// Follows squares, their sums and the roots of their means in a run. A sum of squares keeps most of its terms whatever
/// its errors are, also where these are larger than the sum.
/// Guarantee: as T-186
/// Source:    docs/theory.md T-186
class SquaresInRun {
public:
  using Values = std::function<RunValue(ValueId)>;

  /// Keeps a reference to the graph.
  SquaresInRun(const Graph& graph, Values values);

  /// Lower bounds of the results of a node in the run, none below 0; empty where none are known. `sums_are_exact`: as
  /// UnrecordedNode has it.
  std::vector<double> least(const Node& node, const Shape& shape, bool sums_are_exact, const Setting& setting) const;

  /// Limits bounds of what the node's exact function changes between the centres and the run by what lower bounds of
  /// its operands allow.
  void limit(const NodeView& view, std::vector<double>& moved) const;

  /// Raises the radii of a variance to what merges may make of it, where its mean may be anywhere among the numbers.
  void add_merges(const NodeView& view, bool sums_are_exact, const Setting& setting, std::vector<double>& radii) const;

  /// Whether a sum of a moment is one of squares: a variance, no mean.
  bool is_of_squares(const Node& node) const;

private:
  std::vector<double> least_sums(const Node& node, const Shape& shape, bool sums_are_exact,
                                 const Setting& setting) const;
  const Node* square_below(const Node& sum) const;
  const Node* centred_below(const Node& sum, const Shape& sums) const;

  Values values_;
  std::vector<const Node*> producers_;  ///< by value
};

}  // namespace driftbound::bounds
