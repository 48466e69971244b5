#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

class RowStep;
class OperandCache;

/// The shadow of a network and, for every row of every value, one number: how far the exact network can be from it in
/// the 2-norm, and so in every element. It costs little more than the values. Thread-safe when const.
/// Guarantee: proven
/// Tightness: about 10^-5 to 10^-3 of the error of a run in float32
/// Source:    docs/theory.md T-82
class RowWalk {
public:
  /// What does not depend on the samples, found once: constants in double, packed, and their norms. Null where an op
  /// has no line in the table of T-82: `obstacle` says which.
  static std::shared_ptr<const RowWalk> of(const Program& program, const Setting& setting, OperandCache& operands,
                                           std::string& obstacle);

  RowWalk() = default;
  ~RowWalk();
  RowWalk(const RowWalk&) = delete;
  RowWalk& operator=(const RowWalk&) = delete;

  /// Called once for every value, in the order of the graph. `radii` by row (Program::rows); empty: all 0.
  using Visit = std::function<void(ValueId id, const Tensor<double>& shadow, std::span<const double> radii)>;

  /// Shapes:    `network` the one of of(); `inputs` by position in the graph's inputs, `input_radii` too: 2-norms of
  ///            rows by which the exact network's inputs may differ, empty where they do not
  /// Returns:   false where some number is not finite: then nothing is known
  bool run(const Program& program, const std::vector<Tensor<double>>& inputs,
           const std::vector<std::vector<double>>& input_radii, const Setting& setting, const Visit& visit) const;

private:
  std::vector<const Tensor<double>*> constants_;       ///< by value, kept by the weights or here; null: none
  std::deque<Tensor<double>> own_constants_;           ///< outputs that depend on no input too
  std::vector<std::unique_ptr<const RowStep>> steps_;  ///< by node; null where the output is a constant
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<double>> spare_;  ///< memory of values, kept from block to block
};

}  // namespace driftbound::bounds
