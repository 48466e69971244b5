#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analysis/op_text.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::size_t longest_part = 60;  // longer ones get a name

enum class Binding { sum, product, value };

struct Text {
  std::string text;
  Binding binding = Binding::value;
};

std::string constant_text(const StoredTensor& constant) {
  const Tensor<double> tensor = constant.to_double();
  std::vector<std::string> values;
  for (const double x : tensor.values) values.push_back(fmt::format("{:.6g}", x));
  return nested_text(values, tensor.shape);
}

struct Infix {
  std::string_view sign;
  Binding binding;
};

std::optional<Infix> infix_of(const Op& op) {
  if (std::holds_alternative<op::Add>(op)) return Infix{" + ", Binding::sum};
  if (std::holds_alternative<op::Sub>(op)) return Infix{" - ", Binding::sum};
  if (std::holds_alternative<op::Mul>(op)) return Infix{" · ", Binding::product};
  if (std::holds_alternative<op::Div>(op)) return Infix{" / ", Binding::product};
  return std::nullopt;
}

/// Operations are written in the order in which they are made: on the right, equal ones need brackets.
std::string operand(const Text& text, Binding around, bool is_right) {
  const bool is_weaker = text.binding < around || (is_right && text.binding == around);
  return is_weaker ? "(" + text.text + ")" : text.text;
}

Text text_of(const Op& op, const std::vector<Text>& operands) {
  if (const auto infix = infix_of(op)) {
    return {operand(operands[0], infix->binding, false) + std::string(infix->sign) +
                operand(operands[1], infix->binding, true),
            infix->binding};
  }
  std::string list;
  for (const Text& one : operands) list += (list.empty() ? "" : ", ") + one.text;
  const std::string attributes = attributes_of(op);
  return {fmt::format("{}({}{}{})", name_of(op), list, attributes.empty() ? "" : "; ", attributes), Binding::value};
}

}  // namespace

std::vector<std::string> formulas_of(const Graph& graph, const std::vector<std::string>& input_names) {
  std::vector<Text> texts(graph.values.size());
  std::vector<std::size_t> uses(graph.values.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) texts[graph.inputs[i]].text = input_names.at(i);
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs) ++uses[id];
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes) {
    std::vector<Text> operands;
    for (const ValueId id : node.inputs)
      operands.push_back(graph.is_constant(id) ? Text{constant_text(graph.value(id).constant), Binding::value}
                                               : texts[id]);
    texts[node.output] = text_of(node.op, operands);
    Text& text = texts[node.output];
    const bool is_short = text.text.size() <= longest_part || node.output == graph.outputs.front();
    if (uses[node.output] < 2 && is_short) continue;
    const std::string name = "t" + std::to_string(lines.size() + 1);
    lines.push_back(name + " = " + text.text);
    text = {name, Binding::value};
  }
  lines.push_back(texts[graph.outputs.front()].text);
  return lines;
}

}  // namespace driftbound::analysis
