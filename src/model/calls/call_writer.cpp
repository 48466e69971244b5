#include "model/calls/call_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"
#include "model/convert.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"

namespace driftbound::calls {

void refuse(const std::string& why) {
  throw Unsupported(why);
}

CallWriter::CallWriter(const RecordedCall& call) : call_(call), inputs_(call.operands.size()) {}

std::optional<ElementType> CallWriter::type(std::string_view name) {
  const std::string given = text(name, "");
  if (given.empty()) return std::nullopt;
  if (given.ends_with("float64") || given.ends_with("double")) return ElementType::f64;
  if (given.ends_with("bfloat16")) return ElementType::bf16;
  if (given.ends_with("float16") || given.ends_with("half")) return ElementType::f16;
  if (given.ends_with("float32") || given.ends_with("float")) return ElementType::f32;
  refuse("it casts to " + in_quotes(given));
}

ValueId CallWriter::x_of_its_type(std::size_t slot) {
  const std::optional<ElementType> asked = type("dtype");
  const std::optional<FormatId> own = float_format(type_of(slot));
  if (asked && own && !holds_all_of(format(*float_format(*asked)), format(*own)))
    refuse("it computes in a narrower type than its operand has");
  return x(slot);
}

const CallOperand& CallWriter::operand(std::size_t slot) const {
  if (!is_given(slot)) throw ShapeMismatch(fmt::format("its operand {} is missing", slot));
  return *call_.operands[slot];
}

const CallResult& CallWriter::recorded_result(std::size_t index) const {
  if (index >= call_.results.size() || !call_.results[index])
    throw ShapeMismatch(fmt::format("its result {} is not recorded", index));
  return *call_.results[index];
}

ValueId CallWriter::x(std::size_t slot) {
  const CallOperand& given = operand(slot);
  if (!is_float(given.type) && given.type != ElementType::boolean)
    refuse(fmt::format("it computes with operand {}, which is {}", slot, name_of(given.type)));
  return moved(slot);
}

ValueId CallWriter::moved(std::size_t slot) {
  const CallOperand& given = operand(slot);
  if (inputs_[slot]) return *inputs_[slot];
  std::vector<DeclaredDimension> declared;
  for (const std::int64_t extent : given.shape) declared.push_back({extent, ""});
  inputs_[slot] = meaning_.graph.add_input(fmt::format("operand/{}", slot), given.type, std::move(declared));
  meaning_.slots.push_back(slot);
  shapes_.push_back(given.shape);
  return *inputs_[slot];
}

std::vector<ValueId> CallWriter::all_from(std::size_t slot) {
  std::vector<ValueId> all;
  for (; slot < operand_count(); ++slot)
    if (is_given(slot)) all.push_back(x(slot));
  return all;
}

std::vector<ValueId> CallWriter::all_moved() {
  std::vector<std::size_t> given;
  for (std::size_t slot = 0; slot < operand_count(); ++slot)
    if (is_given(slot)) given.push_back(slot);
  const bool have_one_type = std::all_of(given.begin(), given.end(),
                                         [&](std::size_t slot) { return type_of(slot) == type_of(given.front()); });
  std::vector<ValueId> all;
  for (const std::size_t slot : given) all.push_back(have_one_type ? moved(slot) : x(slot));
  return all;
}

StoredTensor CallWriter::numbers(std::size_t slot) const {
  return operand(slot).numbers();
}

std::vector<std::int64_t> CallWriter::integers_of(std::size_t slot) const {
  if (is_float(type_of(slot))) throw ParseError(fmt::format("its operand {} holds floats, not integers", slot));
  return numbers(slot).to_int64().values;
}

const Attribute* CallWriter::find(std::string_view name) {
  asked_for_.emplace_back(name);
  const auto found = call_.attributes.find(std::string(name));
  return found == call_.attributes.end() || found->second.is_none() ? nullptr : &found->second;
}

namespace {

[[noreturn]] void fail_type(std::string_view name, std::string_view expected) {
  throw ParseError(fmt::format("its argument '{}' is not {}", name, expected));
}

double real_of(std::string_view name, const Attribute& attribute) {
  const std::optional<double> number = attribute.number();
  if (!number) fail_type(name, "a number");
  return *number;
}

std::int64_t integer_of(std::string_view name, const Attribute& attribute) {
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) return *integer;
  if (const auto* truth = std::get_if<bool>(&attribute.value)) return *truth ? 1 : 0;
  fail_type(name, "a whole number");
}

}  // namespace

bool CallWriter::has(std::string_view name) {
  return find(name) != nullptr;
}

double CallWriter::real(std::string_view name, double fallback) {
  const Attribute* found = find(name);
  return found != nullptr ? real_of(name, *found) : fallback;
}

std::int64_t CallWriter::integer(std::string_view name, std::int64_t fallback) {
  return maybe_integer(name).value_or(fallback);
}

std::optional<std::int64_t> CallWriter::maybe_integer(std::string_view name) {
  const Attribute* found = find(name);
  return found != nullptr ? std::optional(integer_of(name, *found)) : std::nullopt;
}

bool CallWriter::truth(std::string_view name, bool fallback) {
  return integer(name, fallback ? 1 : 0) != 0;
}

std::string CallWriter::text(std::string_view name, std::string_view fallback) {
  const Attribute* found = find(name);
  if (found == nullptr) return std::string(fallback);
  if (const auto* text = std::get_if<std::string>(&found->value)) return *text;
  fail_type(name, "a text");
}

std::vector<std::int64_t> CallWriter::integers(std::string_view name, std::vector<std::int64_t> fallback) {
  const Attribute* found = find(name);
  if (found == nullptr) return fallback;
  const auto* list = std::get_if<Attribute::List>(&found->value);
  if (list == nullptr) return {integer_of(name, *found)};
  std::vector<std::int64_t> integers;
  for (const Attribute& element : *list) integers.push_back(integer_of(name, element));
  return integers;
}

void CallWriter::ignore(std::initializer_list<std::string_view> names) {
  asked_for_.insert(asked_for_.end(), names.begin(), names.end());
}

void CallWriter::ignore_all() {
  for (const auto& [name, attribute] : call_.attributes) asked_for_.push_back(name);
}

void CallWriter::require_all_known() const {
  for (const auto& [name, attribute] : call_.attributes)
    if (!attribute.is_none() && std::find(asked_for_.begin(), asked_for_.end(), name) == asked_for_.end())
      refuse(fmt::format("its argument {} is not known to this version", in_quotes(name)));
}

void CallWriter::require_small(const Shape& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 22;
  if (element_count(shape) > most) refuse(fmt::format("it needs a constant of the shape {}", to_string(shape)));
}

ValueId CallWriter::number(double value) {
  const StoredTensor exact = StoredTensor::from(Tensor<double>({}, {value}));
  const ValueId id = constant(exact);
  const std::optional<ElementType> type = narrowest_operand();
  if (!type || converts_exactly(exact, *type)) return id;
  meaning_.may_round_numbers = true;
  return add(op::Cast{*type}, {id});
}

std::optional<ElementType> CallWriter::narrowest_operand() const {
  std::optional<ElementType> narrowest;
  const auto digits = [](ElementType type) { return format(*float_format(type)).precision; };
  for (const std::optional<CallOperand>& operand : call_.operands)
    if (operand && is_float(operand->type) && (!narrowest || digits(operand->type) < digits(*narrowest)))
      narrowest = operand->type;
  return narrowest;
}

ValueId CallWriter::constant(StoredTensor tensor) {
  shapes_.push_back(tensor.shape());
  return meaning_.graph.add_constant(fmt::format("constant/{}", meaning_.graph.values.size()), std::move(tensor));
}

ValueId CallWriter::add(Op op, std::vector<ValueId> inputs) {
  std::vector<Shape> shapes;
  for (const ValueId id : inputs) shapes.push_back(shape(id));
  shapes_.push_back(output_shape(op, shapes));
  return meaning_.graph.add_node(fmt::format("step/{}", meaning_.graph.nodes.size()), std::move(op), std::move(inputs));
}

ValueId CallWriter::reshape(ValueId id, Shape target) {
  return shape(id) == target ? id : add(op::Reshape{std::move(target), true}, {id});
}

void CallWriter::result(std::size_t index, ValueId id) {
  if (meaning_.results.size() <= index) meaning_.results.resize(index + 1);
  meaning_.results[index] = id;
}

CallMeaning CallWriter::finish() {
  require_all_known();
  return std::move(meaning_);
}

}  // namespace driftbound::calls
