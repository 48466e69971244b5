#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "bounds/adjoint/shadow.hpp"

namespace driftbound::bounds {

/// Bounds the difference of two trajectories at every value by the sum of the contributions of all error sources before
/// it: errors of the inputs, local errors and remainders. Signs are kept, so that the radii grow with products of
/// Jacobians, not with products of their magnitudes or norms.
/// Guarantee: that of the bounds of the sources
/// Source:    docs/theory.md T-117
class SourceRadii {
public:
  /// `most_numbers`: the largest number of doubles that the shares of one value may occupy. Beyond that, its sources
  /// are merged into one per element. If the computation of a value needs more than 16 times as many, its radii are
  /// infinite.
  SourceRadii(const Program& program, const Shadow& shadow, const Setting& setting,
              std::size_t most_numbers = std::size_t{1} << 22);

  /// Sets the error of an input: at most `amplitude` for every element. Values that do not depend on the inputs are
  /// ignored.
  void start(ValueId id, Radii amplitude);

  /// Returns upper bounds of |difference| at the output of a node after settle() of its operands. Returns nothing if
  /// the output does not depend on the inputs; the bounds are infinite if there are too many sources.
  /// Shapes:    slopes as in Linearised; added, remainder [output size], empty: 0
  std::vector<double> step(std::size_t node, const std::vector<std::vector<double>>& slopes, Radii added,
                           Radii remainder);

  /// Takes the final radii of a value. An element whose sources add up to more than twice its radius loses them and
  /// gets one source of its own, of the size of that radius.
  /// Shapes:    radii [size], empty: 0
  void settle(ValueId id, Radii radii);

private:
  /// The signed contributions of the `count` sources of one value to another value.
  struct Shares {
    std::size_t count = 0;
    std::vector<double> rows;  ///< [count * size]
  };
  struct Sources {
    std::map<ValueId, Shares> shares;  ///< by the value that has these sources
    std::vector<double> own;           ///< size of the source that affects this element only; empty: 0
  };
  /// The shares of all operands of a node, with the sources in the same order for every operand.
  struct Aligned {
    std::map<ValueId, std::size_t> counts;  ///< number of sources, by the value that has them
    std::size_t count = 0;                  ///< of all together
    /// By operand, empty: 0. rows: [count * size]; magnitudes: [size], the sums of the magnitudes over all sources.
    std::vector<std::vector<double>> rows, magnitudes;
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
  std::vector<Sources> sources_;   ///< by value
  std::vector<std::size_t> uses_;  ///< by value: how many operand slots read it
};

}  // namespace driftbound::bounds
