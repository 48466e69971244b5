#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "bounds/rows/refined_radii.hpp"

namespace driftbound::bounds {

/// Second-order remainders of functions of one element at radii estimated from random sign vectors, for some rows of a
/// block after its forward pass. A random sign is drawn for every rounding and every remainder, and the resulting
/// perturbations are propagated through the slopes in single precision.
/// Guarantee: none, an estimate
/// Source:    docs/theory.md T-75, T-88
class RadiiByChance {
public:
  /// Buffers that are reused for the next rows.
  struct Memory {
    std::vector<std::vector<float>> moved;       ///< by value: perturbations, [rows, sign vectors, size]
    std::vector<std::vector<float>> free;        ///< unused buffers of `moved`
    std::vector<std::vector<double>> remainder;  ///< by node: [rows, size]
    std::vector<float> signs, amplitudes;
    std::vector<RunRows> operands;
    RunRows result;
    RunErrors errors;
    RunScratch scratch;
  };

  RadiiByChance(const RunState& state, Memory& memory, std::span<const std::size_t> rows);

  /// Returns whether the random radii are used for the i-th row. They are rejected if the part that is not modelled as
  /// random is too large, or if single precision cannot hold the perturbations.
  bool rules(std::size_t i) const { return rules_[i] != 0; }
  /// Returns the remainders of the i-th row at a node; null if the node has no remainder.
  const double* remainder(std::size_t node, std::size_t i) const;

private:
  void find_scales();
  void start(ValueId id);
  void step(std::size_t node);
  void update_remainder(std::size_t node);
  void limit_radii(ValueId id, RunRows& operand) const;
  void add_roundings(std::size_t node);
  void draw(ValueId id, const std::vector<double>& deviations, double factor, std::span<const std::size_t> rows);
  void draw_signs(std::size_t count);
  void give(ValueId id);

  const RunState& state_;
  Memory& memory_;
  const std::span<const std::size_t> rows_;
  std::vector<std::size_t> in_order_;  ///< 0, 1, ...
  std::vector<char> rules_;
  std::vector<double> scales_;  ///< by row: power of two that scales its perturbations
  std::mt19937_64 random_{1};
};

}  // namespace driftbound::bounds
