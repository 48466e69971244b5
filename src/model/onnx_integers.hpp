#pragma once

#include <cstdint>
#include <optional>

#include "model/onnx_ops.hpp"

namespace driftbound::onnx {

/// Integers of an operand, wherever they are.
class Integers {
public:
  /// Empty where the operand is no integer, or nothing is known of its values.
  static std::optional<Integers> of(const Operand& operand);

  ElementType type() const;
  const Shape& shape() const;
  std::size_t size() const;
  /// Throws:    Unsupported for an unsigned number of 2^63 or more
  Extent operator[](std::size_t i) const;

private:
  const StoredTensor* constant_ = nullptr;
  const IntegerTensor* partial_ = nullptr;
};

/// The integers that a node computes where they follow from shapes and constants: Shape, Size, integer arithmetic,
/// comparisons, Where, Gather, Slice, Range … Exact, or not at all. Empty where the node is no such node.
/// Throws:    Unsupported (overflow, division by zero, a shape that is not known, larger than the allowance),
///            ParseError, ShapeMismatch (a node that breaks the rules of its op)
std::optional<IntegerTensor> fold_integers(const NodeView& node);

/// Throws:    Unsupported where a Slice with a negative step starts in front of its axis: some runtimes take the first
///            element, others nothing
void require_start(std::int64_t start, std::int64_t step, std::int64_t extent);

/// The integers as a constant where all of them are numbers.
std::optional<StoredTensor> to_constant(const IntegerTensor& integers);

/// Integers that a selection moves. Empty where an operand is of other kind, or too many.
/// Throws:    ShapeMismatch
std::optional<IntegerTensor> select_integers(const Op& op, const std::vector<Operand>& operands, Allowance& allowance);

}  // namespace driftbound::onnx
