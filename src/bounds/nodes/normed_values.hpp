#pragma once

#include <optional>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// The nodes of a graph that divide a value x by r, where r^2 is w times the sum of x^2 and an epsilon above 0, as
/// normalisations do: no exact result is larger than sqrt(1 / w), whatever the errors of the operands are.
/// Guarantee: proven
/// Source:    docs/theory.md T-132
class NormedValues {
public:
  /// Keeps a reference to the graph.
  explicit NormedValues(const Graph& graph);

  /// Limits upper bounds of the distances of a node's results from the exact ones by what these can be.
  void limit(const NodeView& view, std::vector<double>& bounds) const;

private:
  /// x / r, or x times 1 / r.
  struct Normed {
    std::size_t slot = 0;                  ///< of x
    std::optional<double> largest_square;  ///< 1 / w; empty: as many as a mean has elements
  };
  std::optional<Normed> normed_by(const Node& node) const;
  bool is_root_of_squares(ValueId root, ValueId x, Normed& normed) const;
  bool is_mean_of_squares(ValueId mean, ValueId x, Normed& normed) const;
  bool is_square(ValueId square, ValueId x) const;
  const Node* producer(ValueId id) const { return producers_[id]; }
  std::optional<double> number(ValueId id) const;

  const Graph& graph_;
  std::vector<const Node*> producers_;         ///< by value
  std::vector<std::optional<Normed>> normed_;  ///< by value that the node computes
};

}  // namespace driftbound::bounds
