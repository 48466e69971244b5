#include "model/onnx_steps.hpp"

#include <algorithm>

#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"
#include "model/onnx_rules.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {

MappedOps::Input StepWriter::constant(StoredTensor tensor) {
  mapped_.constants.push_back(std::move(tensor));
  return {MappedOps::Source::constant, mapped_.constants.size() - 1};
}

bool StepWriter::is_exact(const Tensor<double>& numbers) const {
  return is_float(type_) && converts_exactly(StoredTensor::from(numbers), type_);
}

MappedOps::Input StepWriter::numbers(const Tensor<double>& numbers) {
  if (!is_float(type_))
    throw Unsupported("computes in " + std::string(driftbound::name_of(type_)) +
                      "; only float arithmetic is supported");
  const std::size_t bytes = numbers.size() * sizeof(double);
  if (!allowance_.take(bytes, bytes)) throw Unsupported("its constants are larger than a file of this size justifies");
  if (!is_exact(numbers))
    throw Unsupported("a number of its definition is not exact in " + std::string(driftbound::name_of(type_)));
  return constant(converted(StoredTensor::from(numbers), type_, "a constant"));
}

MappedOps::Input StepWriter::zero() {
  return constant(StoredTensor(type_, {}, std::vector<std::byte>(bytes_per_element(type_))));
}

MappedOps StepWriter::finish(std::vector<Input> outputs) {
  mapped_.outputs = std::move(outputs);
  return std::move(mapped_);
}

std::optional<Shape> shape_of(const NodeView& node, std::size_t slot) {
  const OpenShape* open = is_given(node, slot) ? node.operands[slot].shape : nullptr;
  return open == nullptr ? std::nullopt : to_numbers(*open);
}

std::optional<std::vector<std::int64_t>> reshape_target(const OpenShape& shape, bool copies_axis_0) {
  std::vector<std::int64_t> target;
  std::size_t open = 0;
  for (const Extent& extent : shape) {
    const bool is_copied = copies_axis_0 && target.empty();
    if (!is_copied && extent.is_number() && extent.value() == 0) return std::nullopt;  // 0 means a copy
    if (!is_copied && !extent.is_number()) ++open;
    target.push_back(is_copied ? 0 : extent.is_number() ? extent.value() : -1);
  }
  return open > 1 ? std::nullopt : std::optional(target);
}

void require_since(const NodeView& node, std::string_view attribute, std::int64_t opset) {
  const Attributes& attributes = node.proto.attributes;
  const bool is_there =
      std::any_of(attributes.begin(), attributes.end(), [&](const auto& each) { return each.first == attribute; });
  if (is_there && node.opset < opset)
    fail("attribute " + in_quotes(attribute) + " is there since opset " + std::to_string(opset) +
         " only; declare that opset, or leave it out");
}

void pay_for_elements(const NodeView& node, std::int64_t count, std::size_t bytes_each, const char* what) {
  const auto elements = static_cast<std::size_t>(count);
  if (elements > node.allowance.left() / bytes_each || !node.allowance.take(elements * bytes_each))
    throw Unsupported(std::string(what) + " are larger than a file of this size justifies");
}

std::int64_t count_between(const Shape& shape, std::size_t first, std::size_t last) {
  const auto at = [&](std::size_t i) { return shape.begin() + static_cast<std::ptrdiff_t>(i); };
  return element_count(Shape(at(first), at(last)));
}

}  // namespace driftbound::onnx
