#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "bounds/nodes/product_node.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

class OperandCache;

/// Bound of the 2-norm of the rounding errors that one node makes in a row in double: per_norm times the 2-norm of the
/// row, plus `fixed` or, if `by_row` is not empty, by_row[row].
struct RowRounding {
  bool measures_output = true;  ///< per_norm refers to the output, else to operand 0
  Magnitude per_norm, fixed;
  std::vector<double> by_row;

  bool is_zero() const { return per_norm == Magnitude() && fixed == Magnitude() && by_row.empty(); }
};

/// One node of a RowWalk: evaluates it in double for all rows of a block and bounds its rounding errors per row.
/// Source:    docs/theory.md T-82
class RowStep {
public:
  virtual ~RowStep() = default;
  /// Writes the node's value at the view's inputs to `output`, which has the right shape and size.
  /// Returns:   empty if a value is not finite or, with Setting::rows_are_apart, if the rows would have to be evaluated
  ///            in different ways
  virtual std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output,
                                              const Setting& setting) const = 0;
  /// Returns one Lipschitz constant in the 2-norm per operand: a change of that operand by N in the 2-norm changes the
  /// result by at most the constant times N.
  virtual std::vector<Magnitude> gains() const = 0;
  /// Returns an upper bound of the 2-norm by which a row of the result moves when the rows of the operands move by
  /// `norms`. It takes the place of gains() if moves_by_rows().
  /// Shapes:    `rows`, `norms` by operand; a norm of 0 for an operand that is exact
  virtual Magnitude moved(std::span<const std::span<const double>> rows, std::span<const double> norms) const;
  /// Returns whether the Lipschitz constants depend on the values of the operands; gains() is empty then.
  virtual bool moves_by_rows() const { return false; }
  /// Returns whether the function is known to be constant within `radius` (2-norm) of a row of operand 0.
  virtual bool is_constant_near(std::span<const double> row, double radius) const;
};

/// A node from which a step is made: the shapes of its values and its constant operands (null for an operand that
/// depends on the inputs).
struct RowNode {
  const Program& program;
  const Node& node;
  std::vector<const Tensor<double>*> constants;

  bool varies(std::size_t slot) const { return constants[slot] == nullptr; }
  const Shape& shape(std::size_t slot) const { return program.shape(node.inputs[slot]); }
  const Shape& shape() const { return program.shape(node.output); }
  std::int64_t rows() const { return program.rows(node.output); }
  /// Returns a constant operand, broadcast to one row of the output; empty if the rows read different values.
  std::optional<std::vector<double>> constant_row(std::size_t slot) const;
  /// Domain:    the node is a matrix product
  Product product() const;
};

/// Returns a node that has no step, as reports name it.
std::string describe_obstacle(const Node& node);

/// Returns:   null if the op has no line in the table of T-82, or the output is empty
std::unique_ptr<const RowStep> row_step_of(const RowNode& node, const Setting& setting, OperandCache& operands);

}  // namespace driftbound::bounds
