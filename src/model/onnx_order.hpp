#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// Functions and subgraphs lie within each other at most this deep.
constexpr std::size_t deepest_nesting = 64;

/// Names that a node reads: its inputs, and what a branch of an If takes from around it (with a few names that the
/// branch defines itself).
/// Throws:    ParseError
std::vector<std::string_view> names_read(const NodeProto& node);

/// Positions of nodes in an order in which every value is computed before it is used; the file's order where that is
/// one.
class NodeOrder {
public:
  /// Throws:    ParseError where two nodes compute the same value
  explicit NodeOrder(const std::vector<NodeProto>& nodes);
  bool computes(std::string_view name) const { return producer_.count(name) != 0; }
  /// Throws:    ParseError where nodes depend on their own outputs
  std::vector<std::size_t> sorted() const;

private:
  [[noreturn]] void fail_cycle(const std::vector<std::size_t>& missing) const;

  const std::vector<NodeProto>& nodes_;
  std::unordered_map<std::string_view, std::size_t> producer_;
};

}  // namespace driftbound::onnx
