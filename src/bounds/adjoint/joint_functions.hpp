#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// How far a node's result moves, before it rounds.
struct JointMove {
  std::vector<double> element;
  std::vector<double> norm;  ///< 2-norm of every row
};

/// Nodes that make a value of another one, u, element by element, on more than one way: Gelu, Swish and the like, whoever
/// wrote them. |Δ - S Δ_u| <= R is followed from u on, as bounds of node after node lose that what comes along two ways
/// may cancel.
/// Guarantee: proven
/// Source:    docs/theory.md T-125
class JointFunctions {
public:
  explicit JointFunctions(const Program& program);

  /// Whether ways from one value meet in a node.
  bool meet_in(std::size_t node) const { return !ways_[node].empty(); }
  /// `known`: slopes and remainders up to that node, everything else before it.
  JointMove moved(std::size_t node, const Deviation& known) const;

private:
  /// By slopes from u on, and by what they do not explain.
  struct Followed {
    std::vector<double> slope, rest;
  };

  std::optional<ValueId> last_in_common(ValueId a, ValueId b) const;
  std::optional<ValueId> last_before(const Node& node) const;
  std::vector<std::size_t> ways_to(std::size_t node) const;
  Followed follow(std::size_t node, const std::map<ValueId, Followed>& before, ValueId u, const Deviation& known) const;
  JointMove of_last(const Followed& last, ValueId v, const ValueRadii& of_u) const;

  const Program& program_;
  std::vector<std::optional<std::size_t>> made_by_;  ///< by value: the node; empty: none
  /// By value: the last one before it that all ways to it lead through; empty where there is none.
  std::vector<std::optional<ValueId>> before_;
  std::vector<std::vector<std::size_t>> ways_;  ///< by node in which ways meet: all nodes on them, itself the last
};

}  // namespace driftbound::bounds
