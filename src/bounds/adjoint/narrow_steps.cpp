#include "bounds/adjoint/narrow_steps.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bounds/theorems/roundings.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {
namespace {

/// Whether every element of the result is an element of an operand, possibly negated, or 0.
bool copies(const Op& op) {
  return std::visit(
      [&](const auto& which) {
        using Which = std::decay_t<decltype(which)>;
        if constexpr (Selection<Which>) return fill_value(op) == 0.0;
        return OneOf<Which, op::Neg, op::Abs, op::Relu, op::Min, op::Max, op::ReduceMin, op::ReduceMax, op::Choice>;
      },
      op);
}

class Inserting {
public:
  Inserting(const FlatGraph& from, const Machine& machine, const Readings& readings)
      : from_(from), machine_(machine), readings_(readings), inside_products_(product_machine(machine)) {
    to_.flat.graph.name = from.graph.name;
    to_.flat.graph.source = from.graph.source;
    to_.flat.graph.format = from.graph.format;
    new_id_.resize(from.graph.values.size());
  }

  NarrowGraph run() && {
    for (ValueId id = 0; id < from_.graph.values.size(); ++id) {
      if (from_.graph.value(id).kind != ValueKind::computed) new_id_[id] = add(from_.graph.value(id), from_.shapes[id]);
    }
    find_layers();
    for (std::size_t node = 0; node < from_.graph.nodes.size(); ++node) write(node);
    for (const ValueId id : from_.graph.inputs) to_.flat.graph.inputs.push_back(new_id_[id]);
    for (const ValueId id : from_.graph.outputs) to_.flat.graph.outputs.push_back(new_id_[id]);
    for (const ValueId id : from_.of_value) to_.flat.of_value.push_back(new_id_[id]);
    return std::move(to_);
  }

private:
  ValueId add(Value value, const Shape& shape) {
    to_.flat.graph.values.push_back(std::move(value));
    to_.flat.shapes.push_back(shape);
    format_.push_back(nullptr);
    return to_.flat.graph.values.size() - 1;
  }

  void add_node(Node node, std::size_t owner, std::optional<NarrowRounding> rounding, bool may_be_left_out,
                bool keeps) {
    to_.steps.readings.push_back(reading_of(owner));
    to_.flat.graph.nodes.push_back(std::move(node));
    to_.flat.of_node.push_back(owner);
    to_.steps.rounding.push_back(rounding);
    to_.steps.may_be_left_out.push_back(may_be_left_out);
    to_.steps.keeps.push_back(keeps);
  }

  /// Adds a node that rounds the value `id`, and returns its output.
  ValueId add_rounding(ValueId id, const std::string& name, std::size_t owner, const NarrowRounding& rounding,
                       bool may_be_left_out) {
    Value value = to_.flat.graph.value(id);
    value.kind = ValueKind::computed;
    value.constant = {};
    value.name = name;
    const Shape shape = to_.flat.shapes[id];
    const ValueId rounded = add(std::move(value), shape);
    add_node({name, op::Cast{}, {id}, rounded}, owner, rounding, may_be_left_out, true);
    format_[rounded] = rounding.format;
    return rounded;
  }

  /// Marks the results of nodes of the model itself: only these are stored.
  void find_layers() {
    is_layer_.resize(from_.graph.values.size(), false);
    for (const ValueId id : from_.of_value) is_layer_[id] = true;
  }

  void write(std::size_t index) {
    Node node = from_.graph.nodes[index];
    const ValueId old = node.output;
    const std::size_t owner = from_.of_node[index];
    for (ValueId& id : node.inputs) id = new_id_[id];
    if (multiplies_matrices(node.op) && is_rounded(reading_of(owner).operands)) read_operands(node, owner);
    const Machine at = machine_at(machine_, from_.graph.value(old).type, !is_layer_[old]);
    const bool stores = at.stores_narrower() && is_layer_[old];
    const Format* copied = copied_format(node);
    const bool is_stored_already = stores && copied == at.output;
    const std::optional<NarrowRounding> cast = cast_rounding(node.op);
    node.output = add(from_.graph.value(old), from_.shapes[old]);
    format_[node.output] = cast ? cast->format : copied;
    const std::string name = node.name;
    const ValueId result = node.output;
    add_node(std::move(node), owner, cast, cast.has_value(), stores || !at.stores_narrower());
    new_id_[old] =
        stores && !is_stored_already ? add_rounding(result, name + "/stored", owner, storing(at), true) : result;
  }

  NarrowRounding storing(const Machine& at) const { return {at.output, at.rounding, false, at.flushes}; }
  ProductReading reading_of(std::size_t owner) const {
    return readings_.empty() ? ProductReading() : readings_[owner].value_or(ProductReading());
  }
  NarrowRounding rounding_of(ProductReading reading) const {
    const Machine& inside = inside_products_;
    const bool may_flush = inside.flushes && reading.may_flush;
    if (reading.operands == Reading::nearest_even) return {inside.input, Rounding::nearest_even, false, may_flush};
    if (reading.operands == Reading::nearest_away) return {inside.input, Rounding::nearest_away, false, may_flush};
    const bool ties_are_open = inside.tensor_core.has_value() && inside.operand_rounding == Rounding::nearest_away;
    return {inside.input, inside.operand_rounding, ties_are_open, may_flush};
  }

  /// Whether a rounding changes no number that the value may have: its format holds all numbers of the value's known
  /// format, and nothing is flushed.
  bool leaves_as_it_is(const NarrowRounding& rounding, ValueId id) const {
    return !rounding.may_flush && format_[id] != nullptr && holds_all_of(*rounding.format, *format_[id]);
  }

  void read_operands(Node& node, std::size_t owner) {
    const ProductReading reading = reading_of(owner);
    const NarrowRounding rounding = rounding_of(reading);
    if (holds_all_of(*rounding.format, *machine_.accumulator)) return;
    for (std::size_t slot = 0; slot < 2; ++slot) {
      const ValueId id = node.inputs[slot];
      if (leaves_as_it_is(rounding, id)) continue;
      const std::string name = node.name + "/operand" + std::to_string(slot);
      if (rounding.ties_are_open) {
        node.inputs[slot] = add_rounding(id, name, owner, rounding, false);
        continue;
      }
      const auto [known, is_new] = read_.try_emplace({id, reading});
      if (is_new) known->second = add_rounding(id, name, owner, rounding, false);
      node.inputs[slot] = known->second;
    }
  }

  std::optional<NarrowRounding> cast_rounding(const Op& op) const {
    const auto* cast = std::get_if<op::Cast>(&op);
    const auto target = cast != nullptr ? float_format(cast->to) : std::nullopt;
    if (!target || holds_all_of(format(*target), *machine_.accumulator)) return std::nullopt;
    return NarrowRounding{&format(*target), machine_.rounding, false, machine_.flushes};
  }

  /// Returns the narrow format that the node's result is known to have because the node copies operands of that format;
  /// null if there is none, or if the arithmetic flushes.
  const Format* copied_format(const Node& node) const {
    if (machine_.flushes || !copies(node.op)) return nullptr;
    const std::size_t first = std::holds_alternative<op::Choice>(node.op) ? 1 : 0;
    const Format* common = format_[node.inputs[first]];
    for (std::size_t slot = first; slot < node.inputs.size(); ++slot) {
      if (format_[node.inputs[slot]] != common) return nullptr;
    }
    return common;
  }

  const FlatGraph& from_;
  const Machine& machine_;
  const Readings& readings_;
  const Machine inside_products_;
  NarrowGraph to_;
  std::vector<ValueId> new_id_;        ///< by value of `from`
  std::vector<bool> is_layer_;         ///< by value of `from`
  std::vector<const Format*> format_;  ///< by value of `to`: the narrow format it is known to be in
  std::map<std::pair<ValueId, ProductReading>, ValueId> read_;  ///< the rounded operand, by value of `to` and reading
};

}  // namespace

NarrowGraph with_narrow_steps(const FlatGraph& flat, const Machine& machine, const Readings& readings) {
  return Inserting(flat, machine, readings).run();
}

NarrowedProgram::NarrowedProgram(const Program& program, const Machine& machine, const Readings& readings)
    : NarrowedProgram(program, machine, readings, with_narrow_steps(program.flat(), machine, readings)) {}

NarrowedProgram::NarrowedProgram(const Program& program, const Machine& machine, const Readings& readings,
                                 NarrowGraph narrow)
    : Program(
          program.graph(), program.input_shapes(),
          program.counts_samples() ? std::optional(program.rows()) : std::nullopt,
          [machine, readings](const FlatGraph& flat) { return with_narrow_steps(flat, machine, readings).flat; },
          std::move(narrow.flat)),
      steps_(std::move(narrow.steps)),
      readings_(readings) {}

std::optional<NarrowedProgram> narrowed_program(const Program& program, const Machine& machine,
                                                const Readings& readings) {
  NarrowedProgram narrowed(program, machine, readings);
  const NarrowSteps& steps = narrowed.steps();
  for (std::size_t node = 0; node < narrowed.nodes().size(); ++node) {
    const bool is_narrow = steps.rounding[node] || !is_rounded(steps.readings[node].operands);
    if (is_narrow && narrowed.varies(narrowed.nodes()[node].output)) return narrowed;
  }
  return std::nullopt;
}

}  // namespace driftbound::bounds
