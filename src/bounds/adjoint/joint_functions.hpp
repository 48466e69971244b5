#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// Bounds of the difference of two trajectories at a node's result, before the node's own local error.
struct JointMove {
  std::vector<double> element;
  std::vector<double> norm;  ///< 2-norm of every row
};

/// Bounds for a function of one value u that is computed element by element along several paths, as in Gelu or Swish
/// written out in primitive ops. The relation |Delta_v - S_v Delta_u| <= R_v is propagated from u to the node v where
/// the paths meet, so that correlated contributions of several paths can cancel; bounds from node to node would add
/// them up.
/// Guarantee: proven
/// Source:    docs/theory.md T-125
class JointFunctions {
public:
  explicit JointFunctions(const Program& program);

  /// Whether several paths from one value meet in this node.
  bool meet_in(std::size_t node) const { return !ways_[node].empty(); }
  /// All nodes on the paths that meet in this node, in order, the node itself last; empty for other nodes.
  const std::vector<std::size_t>& ways_to_meet(std::size_t node) const { return ways_[node]; }
  /// The value from which these paths start.
  /// Domain:    meet_in(node)
  ValueId value_before(std::size_t node) const { return *before_[program_.nodes()[node].output]; }
  /// Returns the bounds at a node in which paths meet. `known` must hold the slopes and remainders of all nodes up to
  /// this one, and all other data of the nodes before it.
  JointMove moved(std::size_t node, const Deviation& known) const;

private:
  /// The slope S and the residual R of a value with respect to u, per element.
  struct Followed {
    std::vector<double> slope, rest;
  };

  std::optional<ValueId> last_in_common(ValueId a, ValueId b) const;
  std::optional<ValueId> last_before(const Node& node) const;
  std::vector<std::size_t> ways_to(std::size_t node) const;
  Followed follow(std::size_t node, const std::map<ValueId, Followed>& before, ValueId u, const Deviation& known) const;
  JointMove of_last(const Followed& last, ValueId v, const ValueRadii& of_u) const;

  const Program& program_;
  std::vector<std::optional<std::size_t>> made_by_;  ///< by value: the node that computes it; empty: none
  /// By value: the last earlier value that all paths to it pass through, if all nodes on these paths are elementwise
  /// (its immediate dominator); else empty.
  std::vector<std::optional<ValueId>> before_;
  /// By node in which paths meet: all nodes on these paths in order, the node itself last; empty for other nodes.
  std::vector<std::vector<std::size_t>> ways_;
};

}  // namespace driftbound::bounds
