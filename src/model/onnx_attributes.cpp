#include "model/onnx_attributes.hpp"

#include "driftbound/num/errors.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {

std::optional<AttributeProto> find_attribute(const NodeProto& node, std::string_view name, AttributeType type) {
  for (const auto& [found, bytes] : node.attributes) {
    if (found != name) continue;
    AttributeProto attribute = parse_attribute(bytes);
    if (!attribute.reference.empty())
      throw ParseError("attribute " + in_quotes(name) + " refers to a function's attribute outside a function");
    // Files of IR version 1 and 2 may leave the type out.
    if (attribute.type != type && attribute.type != AttributeType::undefined)
      throw ParseError("attribute " + in_quotes(name) + " is not of the type it must be");
    return attribute;
  }
  return std::nullopt;
}

std::int64_t integer_or(const NodeProto& node, std::string_view name, std::int64_t fallback) {
  const auto attribute = find_attribute(node, name, AttributeType::integer);
  return attribute ? attribute->integer.value_or(0) : fallback;
}

double real_or(const NodeProto& node, std::string_view name, float fallback) {
  const auto attribute = find_attribute(node, name, AttributeType::real);
  return static_cast<double>(attribute ? attribute->real.value_or(0.0f) : fallback);
}

std::string_view text_or(const NodeProto& node, std::string_view name, std::string_view fallback) {
  const auto attribute = find_attribute(node, name, AttributeType::string);
  return attribute ? attribute->text.value_or("") : fallback;
}

std::int64_t required_integer(const NodeProto& node, std::string_view name) {
  const auto attribute = find_attribute(node, name, AttributeType::integer);
  if (!attribute) throw ParseError("attribute " + in_quotes(name) + " is missing");
  return attribute->integer.value_or(0);
}

std::optional<std::vector<std::int64_t>> find_integers(const NodeProto& node, std::string_view name) {
  const auto attribute = find_attribute(node, name, AttributeType::integers);
  if (!attribute) return std::nullopt;
  return to_integers(attribute->integers);
}

}  // namespace driftbound::onnx
