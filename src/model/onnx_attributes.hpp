#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// Attributes of a node by name. A writer may leave out a zero: an attribute that is there without a number is 0.
/// Throws:    ParseError where an attribute is there and of another type, or where a required one is missing

std::optional<AttributeProto> find_attribute(const NodeProto& node, std::string_view name, AttributeType type);
std::int64_t integer_or(const NodeProto& node, std::string_view name, std::int64_t fallback);
double real_or(const NodeProto& node, std::string_view name, float fallback);
std::string_view text_or(const NodeProto& node, std::string_view name, std::string_view fallback);
std::int64_t required_integer(const NodeProto& node, std::string_view name);
std::optional<std::vector<std::int64_t>> find_integers(const NodeProto& node, std::string_view name);

}  // namespace driftbound::onnx
