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

/// Evaluates a network in double for any number of rows and, for every row of every output, bounds the 2-norm of the
/// difference from the exact output. Rows are processed in blocks of one size, the last block padded with copies of its
/// first row, or one by one. Thread-safe when const.
/// Guarantee: proven
/// Source:    docs/theory.md T-82
class DoubleRun {
public:
  /// Returns:   null if the samples are not rows of a batch, if an op has no line in the table of T-82, or if an output
  ///            does not depend on the inputs. The graph must outlive the result.
  static std::unique_ptr<const DoubleRun> of(const Graph& graph);

  /// Called once per output and group of rows. `output` is the position of the output in the graph, `first` the first
  /// row of the group, `radii` one bound per row. Not called for rows without a bound (a value that is not finite). The
  /// result of a row does not depend on the other rows.
  using Visit = std::function<void(std::size_t output, std::size_t first, std::span<const double> values,
                                   std::span<const double> radii)>;
  /// Shapes:    `inputs` by position in the graph's inputs, each [rows, elements per sample]
  void run(std::span<const std::span<const double>> inputs, std::size_t rows, const Visit& visit) const;

private:
  /// The network compiled for a fixed number of rows.
  struct Walk {
    Walk(const Graph& graph, std::int64_t rows_at_a_time, const Setting& setting, OperandCache& operands);

    std::int64_t rows;
    std::vector<Shape> shapes;  ///< shapes of the inputs
    Program program;
    std::shared_ptr<const RowWalk> walk;
  };

  explicit DoubleRun(const Graph& graph);
  /// The network for a block of rows, compiled at the first call. Null if a row has so many values that rows are
  /// processed one by one.
  const Walk* block() const;
  /// Returns:   false, without calling `visit`, if a value of some row is not finite, or if the rows of a block would
  ///            have to be evaluated in different ways
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
