#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/num/errors.hpp"
#include "model/calls/call_writer.hpp"
#include "model/text.hpp"

namespace driftbound {

namespace {

using calls::CallRule;

std::array<std::span<const CallRule>, 5> families() {
  return {calls::element_calls(), calls::product_calls(), calls::row_calls(), calls::move_calls(),
          calls::onnxruntime_calls()};
}

const CallRule* find_rule(std::string_view name) {
  for (const std::span<const CallRule> family : families())
    for (const CallRule& rule : family)
      if (rule.name == name) return &rule;
  return nullptr;
}

/// The name without the sign of an in-place form, "aten::relu_".
std::string_view plain_name(std::string_view name) {
  return name.size() > 1 && name.ends_with('_') && !name.ends_with("__") ? name.substr(0, name.size() - 1) : name;
}

bool is_of_onnx(std::string_view name) {
  const std::vector<OnnxOp> ops = onnx_ops();
  return std::any_of(ops.begin(), ops.end(), [&](const OnnxOp& op) { return op.name == name; });
}

}  // namespace

std::optional<double> Attribute::number() const {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || (*text != "inf" && *text != "-inf")) return std::nullopt;
  return *text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

CallMeaning meaning_of(const RecordedCall& call) {
  calls::CallWriter writer(call);
  const CallRule* rule = find_rule(call.op);
  if (rule == nullptr) rule = find_rule(plain_name(call.op));
  if (rule != nullptr) {
    rule->write(writer);
  } else if (is_of_onnx(call.op)) {
    const std::vector<ValueId> results = calls::add_onnx(writer, call);
    for (std::size_t i = 0; i < results.size(); ++i) writer.result(i, results[i]);
  } else {
    throw Unsupported("this version does not know the op " + in_quotes(call.op));
  }
  return writer.finish();
}

std::vector<CallableOp> callable_ops() {
  std::vector<CallableOp> ops;
  for (const std::span<const CallRule> family : families())
    for (const CallRule& rule : family) ops.push_back({rule.name, rule.meaning});
  std::sort(ops.begin(), ops.end(), [](const CallableOp& a, const CallableOp& b) { return a.name < b.name; });
  return ops;
}

}  // namespace driftbound
