#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "bounds/nodes/operand_cache.hpp"
#include "bounds/rows/row_walk.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

/// Outputs of a network in double and, for every row, how far the exact ones can be from them in the 2-norm, for any
/// number of rows: in blocks of one size, the last one filled up with its first row, or one by one. Thread-safe when
/// const.
/// Guarantee: proven
/// Source:    docs/theory.md T-82
class DoubleRun {
public:
  /// Null where samples are not rows of a batch, an op has no line in the table of T-82, or an output does not depend on
  /// the inputs. The graph must outlive it.
  static std::unique_ptr<const DoubleRun> of(const Graph& graph);

  /// Called for every output, by position, and rows from `first` on, unless nothing is known of them. What is known of
  /// a row depends on that row alone.
  using Visit = std::function<void(std::size_t output, std::size_t first, std::span<const double> values,
                                   std::span<const double> radii)>;
  /// Shapes:    `inputs` by position in the graph's inputs, each `rows` samples one after the other
  void run(std::span<const std::span<const double>> inputs, std::size_t rows, const Visit& visit) const;

private:
  /// The network for a fixed number of rows.
  struct Walk {
    Walk(const Graph& graph, std::int64_t rows_at_a_time, const Setting& setting, OperandCache& operands);

    std::int64_t rows;
    std::vector<Shape> shapes;  ///< of the inputs
    Program program;
    std::shared_ptr<const RowWalk> walk;
  };

  explicit DoubleRun(const Graph& graph);
  /// The network for many rows, made when it is asked for first; null where a row has so many numbers that rows are
  /// better taken one by one.
  const Walk* block() const;
  /// False, without a call, where some number of some row is not finite, or rows differ in how they are evaluated.
  bool run(const Walk& walk, std::span<const std::span<const double>> inputs, std::size_t first, std::size_t rows,
           const Visit& visit) const;

  const Graph& graph_;
  ArithmeticModel arithmetic_;
  Setting setting_;
  mutable OperandCache operands_;
  Walk one_;
  mutable std::once_flag block_made_;
  mutable std::unique_ptr<const Walk> block_;
};

}  // namespace driftbound::bounds
