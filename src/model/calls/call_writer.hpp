#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/recorded_call.hpp"

namespace driftbound::calls {

/// Writes the graph of one call, op after op; shapes are known at every step. An attribute counts as known once it was
/// asked for: one that nobody asks for and that is not none makes the call unsupported.
class CallWriter {
public:
  explicit CallWriter(const RecordedCall& call);

  // ---- operands

  std::size_t operand_count() const { return call_.operands.size(); }
  bool is_given(std::size_t slot) const { return slot < call_.operands.size() && call_.operands[slot].has_value(); }
  /// An operand as an input of the graph.
  /// Throws:    ShapeMismatch where it is left out; Unsupported where it holds integers
  ValueId x(std::size_t slot);
  /// An operand that the call takes as it is, whatever its argument `dtype`.
  /// Throws:    Unsupported where that type lacks some of its numbers, so that the call would cast it first
  ValueId x_of_its_type(std::size_t slot);
  /// An operand whose elements are moved, which may be integers.
  ValueId moved(std::size_t slot);
  /// All operands from one on, those left out skipped.
  std::vector<ValueId> all_from(std::size_t slot);
  /// All operands, whose elements are moved; integers where all have one type.
  std::vector<ValueId> all_moved();
  const Shape& shape_of(std::size_t slot) const { return operand(slot).shape; }
  ElementType type_of(std::size_t slot) const { return operand(slot).type; }
  /// Throws:    ShapeMismatch where the result is not recorded
  const CallResult& recorded_result(std::size_t index) const;
  bool has_result(std::size_t index) const { return index < call_.results.size() && call_.results[index].has_value(); }
  const RecordedCall& recorded() const { return call_; }
  StoredTensor numbers(std::size_t slot) const;
  /// Integers or truth values of an operand.
  std::vector<std::int64_t> integers_of(std::size_t slot) const;

  // ---- attributes

  bool has(std::string_view name);
  double real(std::string_view name, double fallback);
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  std::optional<std::int64_t> maybe_integer(std::string_view name);
  bool truth(std::string_view name, bool fallback);
  std::string text(std::string_view name, std::string_view fallback);
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback = {});
  /// "torch.bfloat16" or "bfloat16"; empty: none.
  /// Throws:    Unsupported for another type
  std::optional<ElementType> type(std::string_view name);
  /// Says that an argument of that name means nothing here: memory formats, devices, seeds.
  void ignore(std::initializer_list<std::string_view> names);
  void ignore_all();
  /// Throws:    Unsupported naming an attribute that nobody asked for and that is not none
  void require_all_known() const;

  // ---- the graph

  const Shape& shape(ValueId id) const { return shapes_.at(id); }
  std::int64_t rank(ValueId id) const { return static_cast<std::int64_t>(shape(id).size()); }
  /// Throws:    Unsupported where an op would need a constant of that shape, which is too large
  static void require_small(const Shape& shape);
  /// A constant of one element, which programs may round to the narrowest type of the operands when they read it.
  ValueId number(double value);
  ValueId constant(StoredTensor tensor);
  ValueId add(Op op, std::vector<ValueId> inputs);
  ValueId reshape(ValueId id, Shape target);
  void result(std::size_t index, ValueId id);

  /// Throws:    as require_all_known()
  CallMeaning finish();

private:
  const CallOperand& operand(std::size_t slot) const;
  /// Of floats; empty where there are none.
  std::optional<ElementType> narrowest_operand() const;
  const Attribute* find(std::string_view name);

  const RecordedCall& call_;
  CallMeaning meaning_;
  std::vector<std::optional<ValueId>> inputs_;  ///< by slot
  std::vector<Shape> shapes_;
  std::vector<std::string> asked_for_;
};

/// An op, or several names of one, and how its graph is written.
struct CallRule {
  std::string_view name;
  void (*write)(CallWriter& call);
  std::string_view meaning;
};

std::span<const CallRule> element_calls();
std::span<const CallRule> product_calls();
std::span<const CallRule> row_calls();
std::span<const CallRule> move_calls();
std::span<const CallRule> onnxruntime_calls();

/// Adds the ops of a node of ONNX's default domain whose operands are the writer's. Returns its results.
/// Throws:    as meaning_of()
std::vector<ValueId> add_onnx(CallWriter& writer, const RecordedCall& call);

[[noreturn]] void refuse(const std::string& why);  // Unsupported

}  // namespace driftbound::calls
