#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "bounds/adjoint/shadow.hpp"

namespace driftbound::bounds {

/// How far a trajectory is from another at every value, as a sum of what all sources before it can move: inputs that
/// are off, local errors, remainders. Radii grow with products of Jacobians, not of their magnitudes or norms.
/// Guarantee: as that of the sources given
/// Source:    docs/theory.md T-117
class SourceRadii {
public:
  /// `most_numbers`: of one value's shares; beyond that its sources become one for each element, and where sixteen times
  /// as many would be on the way to it nothing is said of it.
  SourceRadii(const Program& program, const Shadow& shadow, const Setting& setting,
              std::size_t most_numbers = std::size_t{1} << 22);

  /// A value that is off by itself, by at most `amplitude`; those that are the same for all inputs are not followed.
  void start(ValueId id, Radii amplitude);

  /// Upper bounds of |difference| at the output of a node whose operands are settled; empty where the output does not
  /// depend on the inputs, infinite where its sources are too many.
  /// Shapes:    slopes as Linearised; added, remainder [output size], empty: 0
  std::vector<double> step(std::size_t node, const std::vector<std::vector<double>>& slopes, Radii added,
                           Radii remainder);

  /// What is known of a value in the end: elements whose shares add up to much more start anew.
  /// Shapes:    radii [size], empty: 0
  void settle(ValueId id, Radii radii);

private:
  /// How far each of `count` sources of one value moves another value, signs included.
  struct Shares {
    std::size_t count = 0;
    std::vector<double> rows;  ///< [count * size]
  };
  struct Sources {
    std::map<ValueId, Shares> shares;  ///< by the value whose sources they are
    std::vector<double> own;           ///< of every element alone; empty: 0
  };
  /// The shares of a node's operands, side by side for the same sources.
  struct Aligned {
    std::map<ValueId, std::size_t> counts;
    std::size_t count = 0;
    std::vector<std::vector<double>> rows, magnitudes;  ///< by operand
  };

  void spread(ValueId id);
  Aligned align(const Node& node) const;
  void push_shares(std::size_t node, const std::vector<std::vector<double>>& slopes, const Aligned& operands);
  void pass_own(std::size_t node, const std::vector<std::vector<double>>& slopes);
  std::vector<double> total(const Sources& sources, std::size_t size) const;
  std::vector<double> of_shares(const Sources& sources, std::size_t size) const;
  bool passes_own(const Node& node) const;
  bool may_follow(const Node& node) const;
  void forget_operands(std::size_t node);

  const Program& program_;
  const Shadow& shadow_;
  const Setting& setting_;
  const std::size_t most_numbers_;
  std::vector<Sources> sources_;       ///< by value
  std::vector<std::size_t> uses_;      ///< of a value, by operands of nodes
  std::vector<std::size_t> last_use_;  ///< of a value, by node
};

}  // namespace driftbound::bounds
