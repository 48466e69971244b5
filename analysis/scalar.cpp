#include "analysis/scalar.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

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

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<std::size_t> output_named(const Graph& graph, std::string_view name) {
  for (std::size_t output = 0; output < graph.outputs.size(); ++output)
    if (graph.value(graph.outputs[output]).name == name) return output;
  return std::nullopt;
}

struct Element {
  OutputElement element;
  std::string text;  ///< without blanks around its parts
};

Element parse_element(const Graph& graph, std::string_view whole, std::string_view text) {
  text = trimmed(text);
  if (!text.ends_with(']')) {
    if (const auto output = output_named(graph, text)) return {{*output, 0}, std::string(text)};
    refuse(graph, whole, fmt::format("there is no output '{}'", text));
  }
  const std::size_t open = text.rfind('[');
  if (open == std::string_view::npos) refuse(graph, whole, "']' without '['");
  const std::string_view name = trimmed(text.substr(0, open));
  const std::string_view digits = trimmed(text.substr(open + 1, text.size() - open - 2));
  if (const auto output = output_named(graph, name))
    return {{*output, parse_index(graph, whole, digits)}, fmt::format("{}[{}]", name, digits)};
  if (const auto output = output_named(graph, text)) return {{*output, 0}, std::string(text)};
  refuse(graph, whole, fmt::format("there is no output '{}'", name));
}

/// Position of the '-' that separates two elements: the first one behind a ']' or a full output name; none where all
/// of it is an output's name.
std::size_t find_difference(const Graph& graph, std::string_view text) {
  if (output_named(graph, trimmed(text))) return std::string_view::npos;
  for (std::size_t at = text.find('-'); at != std::string_view::npos; at = text.find('-', at + 1)) {
    const std::string_view before = trimmed(text.substr(0, at));
    if (before.ends_with(']') || output_named(graph, before)) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::string output_names(const Graph& graph) {
  std::string names;
  for (const ValueId id : graph.outputs) names += (names.empty() ? "" : ", ") + graph.value(id).name;
  return names;
}

Scalar parse_scalar(const Graph& graph, std::string_view text) {
  const std::size_t minus = find_difference(graph, text);
  const Element positive = parse_element(graph, text, text.substr(0, minus));
  Scalar scalar;
  scalar.positive = positive.element;
  scalar.text = positive.text;
  if (minus == std::string_view::npos) return scalar;
  const Element negative = parse_element(graph, text, text.substr(minus + 1));
  scalar.negative = negative.element;
  scalar.text += "-" + negative.text;
  if (scalar.negative->output == scalar.positive.output && scalar.negative->element == scalar.positive.element)
    refuse(graph, text, "an element minus itself is 0 everywhere; name two different ones");
  return scalar;
}

Scalar scalar_or_only_output(const Graph& graph, std::string_view text) {
  if (!text.empty()) return parse_scalar(graph, text);
  const std::vector<Shape> shapes = infer_shapes(graph, batch_layout(graph).sample_shapes);
  if (graph.outputs.size() != 1 || element_count(shapes[graph.outputs.front()]) != 1)
    throw InvalidArgument(fmt::format(
        "{}: has more than one output element a point; say which one with --scalar 'OUTPUT[I]', or which two "
        "with --scalar 'OUTPUT[I]-OUTPUT[J]', outputs are: {}",
        graph.source, output_names(graph)));
  Scalar scalar;
  scalar.text = graph.value(graph.outputs.front()).name;
  return scalar;
}

std::string function_text(std::string_view scalar, double iso) {
  if (iso == 0.0) return std::string(scalar);
  return fmt::format("{} {} {}", scalar, iso < 0.0 ? '+' : '-', std::fabs(iso));
}

}  // namespace driftbound::analysis
