#include "analysis/scalar.hpp"

#include <fmt/format.h>

#include <charconv>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

std::string output_names(const Graph& graph) {
  std::string names;
  for (ValueId id : graph.outputs) names += (names.empty() ? "" : ", ") + graph.value(id).name;
  return names;
}

[[noreturn]] void refuse(const Graph& graph, std::string_view text, std::string_view why) {
  throw InvalidArgument(
      fmt::format("--scalar '{}': {}; write OUTPUT[INDEX] or OUTPUT[INDEX]-OUTPUT[INDEX], outputs are: {}", text, why,
                  output_names(graph)));
}

std::int64_t parse_index(const Graph& graph, std::string_view whole, std::string_view digits) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc{} || end != digits.data() + digits.size() || index < 0)
    refuse(graph, whole, fmt::format("'{}' is not an index", digits));
  return index;
}

OutputElement parse_element(const Graph& graph, std::string_view whole, std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  std::string_view name = text;
  OutputElement element;
  if (!text.empty() && text.back() == ']') {
    const std::size_t open = text.rfind('[');
    if (open == std::string_view::npos) refuse(graph, whole, "']' without '['");
    name = text.substr(0, open);
    element.element = parse_index(graph, whole, text.substr(open + 1, text.size() - open - 2));
  }
  for (; element.output < graph.outputs.size(); ++element.output)
    if (graph.value(graph.outputs[element.output]).name == name) return element;
  refuse(graph, whole, fmt::format("there is no output '{}'", name));
}

/// Position of the '-' that separates two elements: the first one after a ']' or, failing that, after a full output
/// name.
std::size_t find_difference(const Graph& graph, std::string_view text) {
  const std::size_t bracket = text.find("]-");
  if (bracket != std::string_view::npos) return bracket + 1;
  for (ValueId id : graph.outputs) {
    const std::string& name = graph.value(id).name;
    if (text.size() > name.size() && text.substr(0, name.size()) == name && text[name.size()] == '-')
      return name.size();
  }
  return std::string_view::npos;
}

}  // namespace

Scalar parse_scalar(const Graph& graph, std::string_view text) {
  std::string compact;
  for (char c : text)
    if (c != ' ') compact += c;
  Scalar scalar;
  scalar.text = compact;
  const std::size_t minus = find_difference(graph, compact);
  scalar.positive = parse_element(graph, text, std::string_view(compact).substr(0, minus));
  if (minus != std::string_view::npos)
    scalar.negative = parse_element(graph, text, std::string_view(compact).substr(minus + 1));
  if (scalar.negative && scalar.negative->output == scalar.positive.output &&
      scalar.negative->element == scalar.positive.element)
    refuse(graph, text, "an element minus itself is 0 everywhere; name two different ones");
  return scalar;
}

}  // namespace driftbound::analysis
