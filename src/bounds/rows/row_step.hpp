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

/// What the computation of one node in double adds to a row: per_norm times the 2-norm of the row of `measured`, and
/// `fixed`; or `by_row`, where that is not empty.
struct RowRounding {
  bool measures_output = true;  ///< else operand 0
  Magnitude per_norm, fixed;
  std::vector<double> by_row;

  bool is_zero() const { return per_norm == Magnitude() && fixed == Magnitude() && by_row.empty(); }
};

/// One node of a RowWalk.
/// Source:    docs/theory.md T-82
class RowStep {
public:
  virtual ~RowStep() = default;
  /// The node's value at the view's inputs, written to `output`, whose shape and size are right. Empty where some
  /// number is not finite, or where rows that are apart (Setting) would be evaluated in different ways.
  virtual std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output,
                                              const Setting& setting) const = 0;
  /// By operand: how much further than N the function moves in the 2-norm when that operand moves by N.
  virtual std::vector<Magnitude> gains() const = 0;
  /// How far the function moves in the 2-norm at one row of the operands when they move by these norms: where
  /// moves_by_rows(), in place of gains(), which are empty then.
  /// Shapes:    `rows`, `norms` by operand; norms 0 for what does not move
  virtual Magnitude moved(std::span<const std::span<const double>> rows, std::span<const double> norms) const;
  /// Whether what the function moves by depends on the values of its operands.
  virtual bool moves_by_rows() const { return false; }
  /// Whether the function is the same everywhere within `radius` of a row of operand 0.
  virtual bool is_constant_near(std::span<const double> row, double radius) const;
};

/// What a step is made of: the node, the shapes of its values, and its constants (null where an operand varies).
struct RowNode {
  const Program& program;
  const Node& node;
  std::vector<const Tensor<double>*> constants;

  bool varies(std::size_t slot) const { return constants[slot] == nullptr; }
  const Shape& shape(std::size_t slot) const { return program.shape(node.inputs[slot]); }
  const Shape& shape() const { return program.shape(node.output); }
  std::int64_t rows() const { return program.rows(node.output); }
  /// A constant operand as every row reads it; empty where rows do not read the same.
  std::optional<std::vector<double>> constant_row(std::size_t slot) const;
  /// Of a node that is a product.
  Product product() const;
};

/// A node that has no step, as reports name it.
std::string describe_obstacle(const Node& node);

/// Null where the op has no line in the table.
std::unique_ptr<const RowStep> row_step_of(const RowNode& node, const Setting& setting, OperandCache& operands);

}  // namespace driftbound::bounds
