#include "analysis/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "driftbound/model/op_groups.hpp"

namespace driftbound::analysis {
namespace {

enum class Binding { sum, product, value };

struct Text {
  std::string text;
  Binding binding = Binding::value;
};

std::string constant_text(const StoredTensor& constant) {
  constexpr std::size_t most_shown = 4;
  const Tensor<double> tensor = constant.to_double();
  if (tensor.shape.empty()) return fmt::format("{:.6g}", tensor.values.at(0));
  if (tensor.size() > most_shown) return "constant " + to_string(tensor.shape);
  std::string text;
  for (const double x : tensor.values) text += fmt::format("{}{:.6g}", text.empty() ? "" : ", ", x);
  return "[" + text + "]";
}

/// Numbers among the attributes.
std::string attributes_of(const Op& op) {
  return std::visit(
      [](const auto& one) -> std::string {
        using T = std::decay_t<decltype(one)>;
        if constexpr (OneOf<T, op::Elu, op::LeakyRelu, op::ThresholdedRelu>) return fmt::format("; {:.6g}", one.alpha);
        if constexpr (std::same_as<T, op::Clip>) return fmt::format("; {:.6g}, {:.6g}", one.least, one.most);
        if constexpr (std::same_as<T, op::Pow>) return fmt::format("; {:.6g}", one.exponent);
        return "";
      },
      op);
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
  return {fmt::format("{}({}{})", name_of(op), list, attributes_of(op)), Binding::value};
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
    if (uses[node.output] < 2) continue;
    Text& shared = texts[node.output];
    const std::string name = "t" + std::to_string(lines.size() + 1);
    lines.push_back(name + " = " + shared.text);
    shared = {name, Binding::value};
  }
  lines.push_back(texts[graph.outputs.front()].text);
  return lines;
}

}  // namespace driftbound::analysis
