#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"
#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// What is known of one input of a node.
struct Operand {
  bool is_given = false;                   ///< false: an optional input left out
  const StoredTensor* constant = nullptr;  ///< its value where it does not depend on a graph input
};

struct NodeView {
  const NodeProto& proto;
  std::int64_t opset;
  std::span<const Operand> operands;
  const std::shared_ptr<const void>& owner;  ///< keeps the file alive
};

/// The node is one of our ops …
struct MappedOp {
  Op op;
  std::vector<std::size_t> slots;  ///< inputs of the node that are inputs of the op
};
/// … a constant …
struct MappedConstant {
  StoredTensor value;
};
/// … or nothing this version has.
struct NotMapped {
  std::string reason;
};
using Mapping = std::variant<MappedOp, MappedConstant, NotMapped>;

/// The meaning of a node of the default domain.
/// Throws:    ParseError, ShapeMismatch (a node that breaks the rules of its op)
Mapping map_node(const NodeView& node);

}  // namespace driftbound::onnx
