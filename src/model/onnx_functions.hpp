#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// "" for the default domain, which files write in two ways.
std::string_view normalized_domain(std::string_view domain);
/// Version of the default domain; empty where it is not imported.
/// Throws:    ParseError where it is imported in two versions
std::optional<std::int64_t> default_opset(const OpsetImports& imports);

struct Function {
  std::string name;  ///< for messages
  std::size_t bytes = 0;
  FunctionProto proto;
  bool is_active = false;  ///< while its body is put in place of a call
};

/// The functions defined in a model. A body is parsed when it is first called.
class FunctionTable {
public:
  /// Throws:    ParseError where two functions have the same domain, name and overload
  explicit FunctionTable(const std::vector<Bytes>& functions);
  /// Null where the node is no call of a function of the model.
  Function* find(const NodeProto& node);

private:
  struct Entry {
    Bytes bytes;
    std::optional<Function> function;
  };
  std::map<FunctionId, Entry> entries_;
};

/// The attributes of a function as a call gives them, or their defaults.
/// Throws:    ParseError where the call gives one that the function does not have
Attributes arguments_of(const Function& function, const NodeProto& call);

/// The node with references to attributes of the function around it replaced by these; a reference to one that is
/// neither given nor has a default leaves the attribute out.
/// Throws:    ParseError where an attribute is of another type than the reference, or there twice
NodeProto with_arguments(const NodeProto& node, const Attributes* arguments);

}  // namespace driftbound::onnx
