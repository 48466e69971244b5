#include "model/onnx_order.hpp"

#include <functional>
#include <queue>
#include <string>
#include <unordered_set>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

constexpr std::size_t most_named_in_cycle = 10;

void append_names_read(std::vector<std::string_view>& names, const NodeProto& node, std::size_t depth) {
  if (depth > deepest_nesting) throw ParseError("subgraphs are nested more than 64 deep");
  names.insert(names.end(), node.inputs.begin(), node.inputs.end());
  if (node.op_type != "If" && node.op_type != "Loop" && node.op_type != "Scan") return;
  for (const auto& [name, bytes] : node.attributes) {
    const AttributeProto attribute = parse_attribute(bytes);
    if (!attribute.graph) continue;
    const GraphProto graph = parse_graph(*attribute.graph);
    std::unordered_set<std::string_view> defined;
    for (const ValueInfoProto& input : graph.inputs) defined.insert(input.name);
    for (const Bytes tensor : graph.initializers) defined.insert(parse_tensor(tensor).name);
    for (const NodeProto& inner : graph.nodes) defined.insert(inner.outputs.begin(), inner.outputs.end());
    std::vector<std::string_view> inside;
    for (const NodeProto& inner : graph.nodes) append_names_read(inside, inner, depth + 1);
    for (const ValueInfoProto& output : graph.outputs) inside.push_back(output.name);
    for (const std::string_view name_inside : inside)
      if (defined.count(name_inside) == 0) names.push_back(name_inside);
  }
}

}  // namespace

std::vector<std::string_view> names_read(const NodeProto& node) {
  std::vector<std::string_view> names;
  append_names_read(names, node, 0);
  return names;
}

NodeOrder::NodeOrder(const std::vector<NodeProto>& nodes) : nodes_(nodes) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view output : nodes[i].outputs) {
      if (!output.empty() && !producer_.emplace(output, i).second)
        throw ParseError("two nodes compute the value " + in_quotes(output));
    }
  }
}

std::vector<std::size_t> NodeOrder::sorted() const {
  std::vector<std::size_t> missing(nodes_.size(), 0);
  std::vector<std::vector<std::size_t>> users(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::string_view name : names_read(nodes_[i])) {
      const auto found = producer_.find(name);
      if (found == producer_.end()) continue;
      users[found->second].push_back(i);
      ++missing[i];
    }
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const std::size_t user : users[i]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  if (order.size() < nodes_.size()) fail_cycle(missing);
  return order;
}

void NodeOrder::fail_cycle(const std::vector<std::size_t>& missing) const {
  std::string text = "nodes depend on their own outputs:";
  std::size_t named = 0;
  for (std::size_t i = 0; i < nodes_.size() && named < most_named_in_cycle; ++i) {
    if (missing[i] == 0) continue;
    text +=
        (named++ == 0 ? " " : ", ") + in_quotes(nodes_[i].name.empty() ? nodes_[i].outputs.front() : nodes_[i].name);
  }
  throw ParseError(text);
}

}  // namespace driftbound::onnx
