#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/onnx_ops.hpp"

namespace driftbound::onnx {

/// Writes the ops that a node is, one after another. Constants are of the element type of the node's first input.
class StepWriter {
public:
  using Input = MappedOps::Input;

  explicit StepWriter(const NodeView& node) : StepWriter(node, node.operands[0].type.value_or(ElementType::f32)) {}
  /// Constants of another element type than the first input's.
  StepWriter(const NodeView& node, ElementType type) : allowance_(node.allowance), type_(type) {}

  ElementType type() const { return type_; }
  static Input slot(std::size_t index) { return MappedOps::slot(index); }

  Input apply(Op op, std::vector<Input> inputs) { return mapped_.add(std::move(op), std::move(inputs)); }
  Input add(Input a, Input b) { return apply(op::Add{}, {a, b}); }
  Input subtract(Input a, Input b) { return apply(op::Sub{}, {a, b}); }
  Input multiply(Input a, Input b) { return apply(op::Mul{}, {a, b}); }
  Input divide(Input a, Input b) { return apply(op::Div{}, {a, b}); }
  Input reshape(Input x, std::vector<std::int64_t> target) { return apply(op::Reshape{std::move(target), false}, {x}); }
  /// `count` elements of an axis from `first` on.
  Input part(Input x, std::int64_t axis, std::int64_t first, std::int64_t count) {
    return apply(op::Slice{{first}, {first + count}, {axis}, {}}, {x});
  }
  /// Element `index` of an axis, which goes.
  Input element(Input x, std::int64_t axis, std::int64_t index) { return apply(op::Gather{axis, {}, {index}}, {x}); }

  Input constant(StoredTensor tensor);
  /// Whether numbers are what they are in the type of the constants.
  bool is_exact(const Tensor<double>& numbers) const;
  /// Throws:    Unsupported where the type is no float or rounds one of them
  Input numbers(const Tensor<double>& numbers);
  Input number(double value) { return numbers(Tensor<double>({}, {value})); }
  /// 0 in any type.
  Input zero();

  MappedOps finish(std::vector<Input> outputs);
  MappedOps finish(Input output) { return finish(std::vector<Input>{output}); }

private:
  Allowance& allowance_;
  ElementType type_;
  MappedOps mapped_;
};

/// Shape of an input where every extent is known.
std::optional<Shape> shape_of(const NodeView& node, std::size_t slot);

/// The target of a Reshape to a shape of which at most one extent is open; empty where more are. A target that copies
/// axis 0 (0) does so where the value reshaped has the samples there.
std::optional<std::vector<std::int64_t>> reshape_target(const OpenShape& shape, bool copies_axis_0 = false);

/// Throws:    ParseError for an attribute that the node's opset does not have
void require_since(const NodeView& node, std::string_view attribute, std::int64_t opset);

/// Throws:    Unsupported where so many elements are more than the file justifies
void pay_for_elements(const NodeView& node, std::int64_t count, std::size_t bytes_each, const char* what);

/// Number of elements between two axes.
std::int64_t count_between(const Shape& shape, std::size_t first, std::size_t last);

}  // namespace driftbound::onnx
