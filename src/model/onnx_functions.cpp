#include "model/onnx_functions.hpp"

#include <algorithm>
#include <unordered_set>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

std::optional<Bytes> find(const Attributes& attributes, std::string_view name) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& attribute) { return attribute.first == name; });
  return found == attributes.end() ? std::nullopt : std::optional(found->second);
}

void require_different_names(const NodeProto& node) {
  std::unordered_set<std::string_view> names;
  for (const auto& [name, bytes] : node.attributes) {
    if (!names.insert(name).second) throw ParseError("attribute " + in_quotes(name) + " is there twice");
  }
}

}  // namespace

std::string_view normalized_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

std::optional<std::int64_t> default_opset(const OpsetImports& imports) {
  std::optional<std::int64_t> opset;
  for (const auto& [domain, version] : imports) {
    if (!normalized_domain(domain).empty()) continue;
    if (opset.value_or(version) != version)
      throw ParseError("opsets " + std::to_string(*opset) + " and " + std::to_string(version) +
                       " of the default domain are imported, as '' or 'ai.onnx'; leave the one that the nodes are of");
    opset = version;
  }
  return opset;
}

FunctionTable::FunctionTable(const std::vector<Bytes>& functions) {
  for (const Bytes bytes : functions) {
    auto [domain, name, overload] = parse_function_id(bytes);
    if (!entries_.emplace(FunctionId{normalized_domain(domain), name, overload}, Entry{bytes, {}}).second)
      throw ParseError("two functions are named " + in_quotes(name));
  }
}

Function* FunctionTable::find(const NodeProto& node) {
  const auto found = entries_.find({normalized_domain(node.domain), node.op_type, node.overload});
  if (found == entries_.end()) return nullptr;
  Entry& entry = found->second;
  if (!entry.function)
    entry.function = Function{in_quotes(node.op_type), entry.bytes.size(), parse_function(entry.bytes), false};
  return &*entry.function;
}

Attributes arguments_of(const Function& function, const NodeProto& call) {
  const std::vector<std::string_view>& names = function.proto.attributes;
  Attributes arguments;
  for (const auto& [name, bytes] : call.attributes) {
    const bool is_known =
        std::find(names.begin(), names.end(), name) != names.end() || find(function.proto.defaults, name);
    if (!is_known) throw ParseError("the function " + function.name + " has no attribute " + in_quotes(name));
    arguments.emplace_back(name, bytes);
  }
  for (const auto& [name, bytes] : function.proto.defaults) {
    if (!find(call.attributes, name)) arguments.emplace_back(name, bytes);
  }
  return arguments;
}

NodeProto with_arguments(const NodeProto& node, const Attributes* arguments) {
  require_different_names(node);
  NodeProto result = node;
  if (arguments == nullptr) return result;
  result.attributes.clear();
  for (const auto& [name, bytes] : node.attributes) {
    const AttributeProto attribute = parse_attribute(bytes);
    if (attribute.reference.empty()) {
      result.attributes.emplace_back(name, bytes);
      continue;
    }
    const std::optional<Bytes> argument = find(*arguments, attribute.reference);
    if (!argument) continue;
    const AttributeType type = parse_attribute(*argument).type;
    if (attribute.type != AttributeType::undefined && type != attribute.type)
      throw ParseError("attribute " + in_quotes(name) + " and the function's attribute " +
                       in_quotes(attribute.reference) + " are of different types");
    result.attributes.emplace_back(name, *argument);
  }
  return result;
}

}  // namespace driftbound::onnx
