#pragma once

#include <optional>
#include <vector>

#include "bounds/adjoint/network.hpp"
#include "bounds/adjoint/radii.hpp"
#include "bounds/rules.hpp"

namespace driftbound::bounds {

/// Values v that several nodes make of one value u, element by element, on more than one way: Gelu, Swish and the like,
/// whoever wrote them. |Δ_v - S Δ_u| <= R is followed from node to node, as bounds of node after node lose that what
/// comes along two ways may cancel.
/// Guarantee: proven
/// Source:    docs/theory.md T-125
class JointFunctions {
public:
  JointFunctions(const Network& network, const TrajectoryRules& rules);

  /// Whether a node is part of such a way.
  bool follows(std::size_t index) const { return follows_[network_.nodes()[index].output] != 0; }
  /// The next node of one, with its Jacobian and what that leaves over. Its roundings are not in it yet.
  void step(std::size_t index, const std::vector<std::vector<double>>& slopes, Radii remainder,
            const std::vector<ValueRadii>& radii);
  /// Upper bounds of |Δ_v|; empty where ways do not meet in the node.
  std::vector<double> radii(std::size_t index, const std::vector<ValueRadii>& radii) const;
  /// The same in the 2-norm, one for every row.
  std::optional<std::vector<double>> norms(std::size_t index, const std::vector<ValueRadii>& radii,
                                           const NormRules& rules) const;
  /// What the node's roundings add.
  void add(std::size_t index, Radii errors);

private:
  struct Followed {
    std::vector<double> slope, rest;
  };

  ValueId root_through(const Node& node) const;
  void find_roots();
  void mark_ways();
  /// Whether the way to a node's result leads through this operand.
  bool leads_through(const Node& node, ValueId operand) const;
  bool meets(std::size_t index) const { return meets_[network_.nodes()[index].output] != 0; }

  const Network& network_;
  const TrajectoryRules& rules_;
  std::vector<ValueId> root_;  ///< by value: u; itself where it is no such function of another value
  std::vector<char> meets_;    ///< by value
  std::vector<char> follows_;  ///< by value
  std::vector<Followed> followed_;
};

}  // namespace driftbound::bounds
