#include "model/onnx_rules.hpp"

#include <algorithm>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_integers.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {

void fail(const std::string& why) {
  throw ParseError(why);
}

bool is_given(const NodeView& node, std::size_t slot) {
  return slot < node.operands.size() && node.operands[slot].is_given;
}

std::vector<std::size_t> given_slots(const NodeView& node) {
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < node.operands.size(); ++slot) {
    if (is_given(node, slot)) slots.push_back(slot);
  }
  return slots;
}

bool uses_more_than_first(const NodeView& node) {
  return node.is_used.size() > 1 && std::find(node.is_used.begin() + 1, node.is_used.end(), true) != node.is_used.end();
}

std::optional<std::vector<std::int64_t>> constant_integers(const NodeView& node, std::size_t slot) {
  const StoredTensor* constant = node.operands[slot].constant;
  if (constant == nullptr) return std::nullopt;
  if (is_float(constant->type()) || constant->shape().size() > 1)
    fail("input " + std::to_string(slot) + " must be a list of integers");
  if (constant->size() > highest_rank) fail("a list of more than 64 axes");
  return constant->to_int64().values;
}

std::optional<double> constant_number(const NodeView& node, std::size_t slot) {
  const StoredTensor* constant = node.operands[slot].constant;
  if (constant == nullptr) return std::nullopt;
  if (constant->size() != 1) fail("input " + std::to_string(slot) + " must be one number");
  return constant->to_double().values[0];
}

std::vector<std::int64_t> checked_rank(std::vector<std::int64_t> axes) {
  if (axes.size() > highest_rank) fail("a list of more than 64 axes");
  return axes;
}

std::optional<std::size_t> rank_of(const NodeView& node, std::size_t slot) {
  if (!is_given(node, slot) || node.operands[slot].shape == nullptr) return std::nullopt;
  return node.operands[slot].shape->size();
}

std::optional<std::int64_t> extent_along(const NodeView& node, std::int64_t axis) {
  const OpenShape* shape = node.operands[0].shape;
  if (shape == nullptr) return std::nullopt;
  const Extent extent = (*shape)[normalized_axis(axis, shape->size())];
  return extent.is_number() ? std::optional(extent.value()) : std::nullopt;
}

void require_form(const NodeView& node, const Moved& moved) {
  const Attributes& attributes = node.proto.attributes;
  const bool is_attribute =
      std::any_of(attributes.begin(), attributes.end(), [&](const auto& each) { return each.first == moved.name; });
  const std::string input = "input " + std::to_string(moved.slot), since = std::to_string(moved.since);
  const std::string advice = ", and the node is of opset " + std::to_string(node.opset) +
                             "; declare the opset that it was written for, or export the model again";
  if (node.opset >= moved.since && is_attribute)
    fail("attribute " + in_quotes(moved.name) + " has been " + input + " since opset " + since + advice);
  if (node.opset < moved.since && is_given(node, moved.slot))
    fail(input + " (" + in_quotes(moved.name) + ") is there since opset " + since + " only" + advice);
}

Axes axes_of(const NodeView& node, std::int64_t input_since) {
  require_form(node, {"axes", 1, input_since});
  const auto attribute = find_integers(node.proto, "axes");
  if (attribute) return {true, true, checked_rank(*attribute)};
  if (!is_given(node, 1)) return {};
  const auto input = constant_integers(node, 1);
  return {true, input.has_value(), input.value_or(std::vector<std::int64_t>{})};
}

}  // namespace driftbound::onnx
