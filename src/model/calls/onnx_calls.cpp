#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>

#include "driftbound/num/errors.hpp"
#include "model/calls/call_writer.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_ops.hpp"

// Calls of ONNX's ops, by the rules that models are loaded with.

namespace driftbound::calls {
namespace {

using onnx::MappedOps;

/// The fields of one AttributeProto. It names no type, as files of IR version 1 need not, so that a whole number serves as
/// a float and as an integer.
class AttributeText {
public:
  explicit AttributeText(const Attribute& attribute) {
    std::visit([this](const auto& value) { write(value); }, attribute.value);
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(text_)); }

private:
  enum Field { real = 2, integer = 3, text = 4, reals = 7, integers = 8, texts = 9 };

  void write(std::monostate) {}
  void write(bool truth) { write(std::int64_t{truth}); }
  void write(std::int64_t number) {
    put_integer(integer, number);
    put_real(real, static_cast<double>(number));
  }
  void write(double number) { put_real(real, number); }
  void write(const std::string& string) { put_text(text, string); }
  void write(const Attribute::List& list) {
    for (const Attribute& element : list) {
      if (const auto* number = std::get_if<std::int64_t>(&element.value)) {
        put_integer(integers, *number);
        put_real(reals, static_cast<double>(*number));
      } else if (const auto* fraction = std::get_if<double>(&element.value)) {
        put_real(reals, *fraction);
      } else if (const auto* string = std::get_if<std::string>(&element.value)) {
        put_text(texts, *string);
      } else {
        throw ParseError("one of its attributes is a list of neither numbers nor texts");
      }
    }
  }

  void put_varint(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) text_.push_back(static_cast<char>(number | 0x80));
    text_.push_back(static_cast<char>(number));
  }
  void put_integer(Field field, std::int64_t number) {
    put_varint(static_cast<std::uint64_t>(field) << 3);
    put_varint(static_cast<std::uint64_t>(number));
  }
  void put_real(Field field, double number) {
    put_varint((static_cast<std::uint64_t>(field) << 3) | 5);
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
    for (int shift = 0; shift < 32; shift += 8) text_.push_back(static_cast<char>(bits >> shift));
  }
  void put_text(Field field, const std::string& string) {
    put_varint((static_cast<std::uint64_t>(field) << 3) | 2);
    put_varint(string.size());
    text_ += string;
  }

  std::string text_;
};

/// The operands of a node as its rules see them. `are_constant`: by operand, whether the rules see its numbers.
class Operands {
public:
  Operands(const RecordedCall& call, const std::vector<bool>& are_constant) {
    for (std::size_t slot = 0; slot < call.operands.size(); ++slot) {
      const auto& given = call.operands[slot];
      onnx::Operand& view = views_.emplace_back();
      if (!given) continue;
      shapes_.push_back(onnx::to_open(given->shape));
      view = {true, nullptr, nullptr, given->type, &shapes_.back()};
      if (are_constant[slot]) view.constant = &constants_.emplace_back(given->numbers());
    }
    while (!views_.empty() && !views_.back().is_given) views_.pop_back();
  }
  std::span<const onnx::Operand> views() const { return views_; }

private:
  std::vector<onnx::Operand> views_;
  std::deque<onnx::OpenShape> shapes_;
  std::deque<StoredTensor> constants_;
};

class Node {
public:
  explicit Node(const RecordedCall& call) : call_(call) {
    for (const auto& [name, attribute] : call.attributes) {
      if (attribute.is_none()) continue;
      texts_.emplace_back(attribute);
      proto_.attributes.emplace_back(name, texts_.back().bytes());
    }
    proto_.op_type = call.op;
    for (std::size_t i = 0; i < std::max<std::size_t>(call.results.size(), 1); ++i) {
      const bool is_recorded = i < call.results.size() && call.results[i];
      proto_.outputs.push_back(i == 0 || is_recorded ? "result" : "");
    }
    for (std::size_t slot = 0; slot < call.operands.size(); ++slot) {
      names_.push_back(call.operands[slot] ? "operand" : "");
      proto_.inputs.push_back(names_.back());
    }
  }

  /// Throws:    ParseError, ShapeMismatch
  onnx::Mapping map(const std::vector<bool>& are_constant) {
    const Operands operands(call_, are_constant);
    std::vector<bool> is_used;
    for (const auto& result : call_.results) is_used.push_back(result.has_value());
    onnx::Mapping mapping = map_with(operands, is_used);
    // Statistics beside a result are not judged, and need no meaning.
    const bool has_others = std::count(is_used.begin(), is_used.end(), true) > 1;
    return has_others && std::holds_alternative<onnx::NotMapped>(mapping) ? map_with(operands, {true}) : mapping;
  }

private:
  static constexpr std::size_t most_bytes_of_constants = std::size_t{1} << 30;

  onnx::Mapping map_with(const Operands& operands, const std::vector<bool>& is_used) {
    const onnx::NodeView view{proto_, call_.opset, operands.views(), is_used, nothing_, data_files_, allowance_, {}};
    onnx::require_form(view);
    return onnx::map_node(view);
  }

  const RecordedCall& call_;
  onnx::NodeProto proto_;
  std::deque<AttributeText> texts_;
  std::deque<std::string> names_;
  std::shared_ptr<const void> nothing_;
  onnx::DataFiles data_files_{"."};
  Allowance allowance_{most_bytes_of_constants};
};

std::vector<ValueId> add_steps(CallWriter& writer, const MappedOps& mapped) {
  std::vector<ValueId> steps, constants;
  for (const StoredTensor& constant : mapped.constants) constants.push_back(writer.constant(constant));
  const auto value = [&](const MappedOps::Input& input) -> ValueId {
    switch (input.source) {
      case MappedOps::Source::slot:
        return writer.x(input.index);
      case MappedOps::Source::step:
        return steps.at(input.index);
      case MappedOps::Source::constant:
        return constants.at(input.index);
      case MappedOps::Source::open_input:
        break;
    }
    refuse("it reads an open extent");
  };
  for (const MappedOps::Step& step : mapped.steps) {
    std::vector<ValueId> inputs;
    for (const MappedOps::Input& input : step.inputs) inputs.push_back(value(input));
    steps.push_back(writer.add(step.op, std::move(inputs)));
  }
  std::vector<ValueId> results;
  for (const MappedOps::Input& output : mapped.outputs) results.push_back(value(output));
  return results;
}

std::vector<ValueId> add_mapping(CallWriter& writer, const onnx::Mapping& mapping) {
  if (const auto* one = std::get_if<onnx::MappedOp>(&mapping)) {
    std::vector<ValueId> inputs;
    for (const std::size_t slot : one->slots) inputs.push_back(writer.x(slot));
    return {writer.add(one->op, std::move(inputs))};
  }
  if (const auto* several = std::get_if<MappedOps>(&mapping)) return add_steps(writer, *several);
  if (const auto* nothing = std::get_if<onnx::NotMapped>(&mapping)) refuse(nothing->reason);
  refuse("it is a constant");
}

}  // namespace

std::vector<ValueId> add_onnx(CallWriter& writer, const RecordedCall& call) {
  for (const auto& [name, attribute] : call.attributes) writer.ignore({name});  // the rules name what they do not know
  Node node(call);
  // Integers and truth values say what is computed; floats do where they are limits, pads, exponents and their like.
  std::vector<bool> are_constant;
  for (const auto& operand : call.operands) are_constant.push_back(operand && !is_float(operand->type));
  onnx::Mapping mapping = node.map(are_constant);
  if (std::holds_alternative<onnx::NotMapped>(mapping)) {
    for (std::size_t slot = 1; slot < call.operands.size(); ++slot)
      are_constant[slot] = call.operands[slot].has_value() && element_count(call.operands[slot]->shape) <= 1;
    if (onnx::Mapping again = node.map(are_constant); !std::holds_alternative<onnx::NotMapped>(again))
      mapping = std::move(again);
  }
  return add_mapping(writer, mapping);
}

}  // namespace driftbound::calls
