#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "bounds/rows/refined_radii.hpp"

namespace driftbound::bounds {

/// Remainders of functions of one element at radii that chance gives, of some rows that went forward: coins are tossed
/// for every rounding and every remainder, and pushed through the slopes in single precision.
/// Guarantee: none, an estimate
/// Source:    docs/theory.md T-75, T-88
class RadiiByChance {
public:
  /// Kept from rows to rows.
  struct Memory {
    std::vector<std::vector<float>> moved;       ///< by value: [rows, tosses, size]
    std::vector<std::vector<float>> free;        ///< of these
    std::vector<std::vector<double>> remainder;  ///< by node
    std::vector<float> signs, amplitudes;
    RunRows operand, result;
    RunErrors errors;
    RunScratch scratch;
  };

  RadiiByChance(const RunState& state, Memory& memory, std::span<const std::size_t> rows);

  /// Whether chance rules the radii of the i-th row: elsewhere they are those of any run.
  bool rules(std::size_t i) const { return rules_[i] != 0; }
  /// Of the i-th row; null where a node leaves nothing over.
  const double* remainder(std::size_t node, std::size_t i) const;

private:
  void find_scales();
  void start(ValueId id);
  void step(std::size_t node);
  void update_remainder(std::size_t node);
  void add_roundings(std::size_t node);
  void draw(ValueId id, const std::vector<double>& deviations, double factor, std::span<const std::size_t> rows);
  void toss_signs(std::size_t count);
  void give(ValueId id);
  void release(std::size_t node);

  const RunState& state_;
  Memory& memory_;
  const std::span<const std::size_t> rows_;
  std::vector<std::size_t> in_order_;  ///< 0, 1, ...
  std::vector<char> rules_;
  std::vector<double> scales_;         ///< by row: of its numbers in single precision
  std::vector<std::size_t> last_use_;  ///< of a value, by node
  std::mt19937_64 coins_{1};
};

}  // namespace driftbound::bounds
