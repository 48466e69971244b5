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

/// Computes the shadow of a network and, for every row of every value, a bound of the 2-norm of its difference from the
/// exact network, which also bounds every element. It costs little more than the values. Thread-safe when const.
/// Guarantee: proven
/// Tightness: about 10^-5 to 10^-3 of the error of a run in float32
/// Source:    docs/theory.md T-82
class RowWalk {
public:
  /// Computes once what does not depend on the samples: constants in double, packed, and their norms.
  /// Returns:   null if an op has no line in the table of T-82, if a constant is not finite, or if a value that depends
  ///            on constants alone is not exact in double; `obstacle` says which
  static std::shared_ptr<const RowWalk> of(const Program& program, const Setting& setting, OperandCache& operands,
                                           std::string& obstacle);

  RowWalk() = default;
  ~RowWalk();
  RowWalk(const RowWalk&) = delete;
  RowWalk& operator=(const RowWalk&) = delete;

  /// Called once for every value, in the order of the graph. `radii`: one bound of the 2-norm per row (Program::rows);
  /// empty: all 0.
  using Visit = std::function<void(ValueId id, const Tensor<double>& shadow, std::span<const double> radii)>;

  /// Shapes:    `program` as passed to of(); `inputs` and `input_radii` by position in the graph's inputs; radii are
  ///            bounds of the 2-norm by which a row of the exact network's input may differ, empty where it does not
  /// Returns:   false if a value is not finite; then no bound is known
  bool run(const Program& program, const std::vector<Tensor<double>>& inputs,
           const std::vector<std::vector<double>>& input_radii, const Setting& setting, const Visit& visit) const;

private:
  std::vector<const Tensor<double>*> constants_;  ///< by value, owned by the cache or by own_constants_; null: none
  std::deque<Tensor<double>> own_constants_;      ///< also outputs of nodes that depend on no input
  std::vector<std::unique_ptr<const RowStep>> steps_;  ///< by node; null where the output is a constant
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<double>> spare_;  ///< buffers of values, reused from block to block
};

}  // namespace driftbound::bounds
