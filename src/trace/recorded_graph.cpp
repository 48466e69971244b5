#include "driftbound/trace/recorded_graph.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "model/fold.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

constexpr std::string_view stored_suffix = "/stored";

/// The element type that holds just the numbers of a format; empty where there is none.
std::optional<ElementType> type_of(FormatId id) {
  for (const ElementType type : {ElementType::f64, ElementType::f32, ElementType::f16, ElementType::bf16})
    if (float_format(type) == id) return type;
  return std::nullopt;
}

class Contraction {
public:
  Contraction(const Graph& graph, const std::vector<std::size_t>& recorded, const ArithmeticModel& arithmetic)
      : from_(graph),
        arithmetic_(arithmetic),
        producer_(graph.values.size()),
        is_recorded_(graph.values.size(), false),
        depends_(depends_on_input(graph)),
        folded_(graph.values.size()),
        placed_(graph.values.size()),
        recorded_(recorded) {
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) producer_[graph.nodes[node].output] = node;
    for (const std::size_t node : recorded) is_recorded_.at(graph.nodes.at(node).output) = true;
    to_.name = graph.name;
    to_.source = graph.source;
    to_.format = graph.format;
  }

  Graph run() && {
    if (recorded_.empty()) throw InvalidArgument("none of the graph's nodes is recorded");
    for (const ValueId id : from_.inputs) to_.inputs.push_back(place(id));
    fold_constants();
    note_roundings();
    for (const std::size_t node : recorded_) add(node);
    add_outputs();
    return std::move(to_);
  }

private:
  /// The id of an input, a constant or a recorded result in the new graph.
  ValueId place(ValueId id) {
    if (placed_[id]) return *placed_[id];
    Value value = from_.value(id);
    if (folded_[id]) {
      value.kind = ValueKind::constant;
      value.constant = *folded_[id];
    }
    to_.values.push_back(std::move(value));
    placed_[id] = to_.values.size() - 1;
    return *placed_[id];
  }

  bool is_leaf(ValueId id) const { return is_recorded_[id] || folded_[id] || !producer_[id]; }

  bool stores_narrower(ElementType type) const {
    if (!is_float(type)) return false;
    return !holds_all_of(format(stored_format(arithmetic_, type)), format(arithmetic_.accumulator));
  }

  /// Moves of constants: exact, where the run stores all their numbers.
  void fold_constants() {
    Allowance allowance(std::numeric_limits<std::size_t>::max());
    for (const Node& node : from_.nodes) {
      if (depends_[node.output] || is_recorded_[node.output] || stores_narrower(from_.value(node.output).type))
        continue;
      std::vector<const StoredTensor*> operands;
      for (const ValueId id : node.inputs) {
        if (from_.is_constant(id)) {
          operands.push_back(&from_.value(id).constant);
        } else if (folded_[id]) {
          operands.push_back(&*folded_[id]);
        }
      }
      if (operands.size() != node.inputs.size()) continue;
      std::optional<StoredTensor> moved = fold(node.op, operands, allowance);
      if (moved && moved->type() == from_.value(node.output).type) folded_[node.output] = std::move(moved);
    }
  }

  /// Finds the results that storing rounds: all that are stored in a narrower type than they are computed in, but casts
  /// to that type and copies of numbers of it.
  void note_roundings() {
    std::vector<bool> holds_stored(from_.values.size(), false);
    for (ValueId id = 0; id < from_.values.size(); ++id) {
      const ElementType type = from_.value(id).type;
      const bool is_given = !producer_[id] || folded_[id];
      holds_stored[id] = is_given && is_float(type) && float_format(type) == stored_format(arithmetic_, type);
    }
    for (const Node& node : from_.nodes) {
      const ElementType type = from_.value(node.output).type;
      if (!stores_narrower(type)) continue;
      const auto* cast = std::get_if<op::Cast>(&node.op);
      const bool is_cast_to_it = cast != nullptr && float_format(cast->to) == stored_format(arithmetic_, type);
      const bool copies = std::visit([]<class T>(const T&) { return Copying<T>; }, node.op);
      const bool are_stored = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return !is_float(from_.value(id).type) || (holds_stored[id] && from_.value(id).type == type);
      });
      if (!is_cast_to_it && !(copies && are_stored)) is_rounded_.insert(node.output);
      holds_stored[node.output] = true;
    }
  }

  void add(std::size_t index) {
    const Node& node = from_.nodes[index];
    const bool stays = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return is_leaf(id); });
    std::vector<ValueId> inputs;
    Op op = node.op;
    if (stays) {
      for (const ValueId id : node.inputs) inputs.push_back(place(id));
    } else {
      op = segment(index, inputs);
    }
    const ValueId output = place(node.output);
    to_.nodes.push_back({node.name, std::move(op), std::move(inputs), output});
  }

  /// Nodes between the leaves and this one, and this one, in graph order.
  std::set<std::size_t> steps_of(std::size_t index) const {
    std::set<std::size_t> steps = {index};
    std::vector<std::size_t> open = {index};
    while (!open.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      for (const ValueId id : from_.nodes[next].inputs)
        if (!is_leaf(id) && steps.insert(*producer_[id]).second) open.push_back(*producer_[id]);
    }
    return steps;
  }

  Op segment(std::size_t index, std::vector<ValueId>& inputs) {
    auto steps = std::make_shared<Graph>();
    std::map<ValueId, ValueId> inside;
    for (const std::size_t step : steps_of(index)) {
      const Node& node = from_.nodes[step];
      std::vector<ValueId> operands;
      for (const ValueId id : node.inputs) {
        if (inside.count(id) == 0) {
          inside[id] = steps->add_input(from_.value(id).name, from_.value(id).type, {});
          inputs.push_back(place(id));
        }
        operands.push_back(inside[id]);
      }
      inside[node.output] = add_step(*steps, node.name, node.op, std::move(operands), from_.value(node.output).type);
      if (step != index && is_rounded_.count(node.output) != 0) add_storing(*steps, node, inside[node.output]);
    }
    steps->outputs = {inside.at(from_.nodes[index].output)};
    return op::Segment{std::move(steps)};
  }

  static ValueId add_step(Graph& steps, const std::string& name, Op op, std::vector<ValueId> operands,
                          ElementType type) {
    Value value;
    value.name = name;
    value.type = type;
    steps.values.push_back(std::move(value));
    steps.nodes.push_back({name, std::move(op), std::move(operands), steps.values.size() - 1});
    return steps.nodes.back().output;
  }

  /// Rounds a result as the run stores it.
  void add_storing(Graph& steps, const Node& node, ValueId& value) const {
    const FormatId stored = stored_format(arithmetic_, from_.value(node.output).type);
    const std::optional<ElementType> type = type_of(stored);
    if (!type)
      throw Unsupported("layer " + in_quotes(node.name) + " is not recorded, and a run that stores results as " +
                        std::string(format(stored).name) +
                        " is judged with every layer recorded only: no element type has this format");
    value = add_step(steps, node.name + std::string(stored_suffix), op::Cast{*type}, {value}, *type);
  }

  void add_outputs() {
    std::vector<ValueId> computed;
    for (const ValueId id : from_.outputs) {
      if (producer_[id] && !is_recorded_[id]) continue;
      if (producer_[id]) computed.push_back(id);
      to_.outputs.push_back(place(id));
    }
    if (!computed.empty()) return;
    std::set<ValueId> read;
    for (const Node& node : to_.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (const Node& node : to_.nodes)
      if (read.count(node.output) == 0) to_.outputs.push_back(node.output);
  }

  const Graph& from_;
  const ArithmeticModel& arithmetic_;
  std::vector<std::optional<std::size_t>> producer_;  ///< by value
  std::vector<bool> is_recorded_, depends_;
  std::set<ValueId> is_rounded_;  ///< results that are rounded when they are stored
  std::vector<std::optional<StoredTensor>> folded_;
  std::vector<std::optional<ValueId>> placed_;
  const std::vector<std::size_t>& recorded_;
  Graph to_;
};

}  // namespace

Graph recorded_graph(const Graph& graph, const std::vector<std::size_t>& recorded, const ArithmeticModel& arithmetic) {
  return Contraction(graph, recorded, arithmetic).run();
}

SegmentParts segment_parts(const Graph& graph, const Node& node) {
  SegmentParts parts;
  const auto* segment = std::get_if<op::Segment>(&node.op);
  if (segment == nullptr || segment->graph == nullptr) return parts;
  std::set<std::string> names;
  for (const Node& step : segment->graph->nodes) {
    const bool is_storing = step.name.ends_with(stored_suffix) &&
                            names.count(step.name.substr(0, step.name.size() - stored_suffix.size())) != 0 &&
                            std::holds_alternative<op::Cast>(step.op);
    if (is_storing) continue;
    names.insert(step.name);
    parts.nodes.push_back(step.name);
  }
  for (const ValueId id : node.inputs) {
    if (graph.is_constant(id)) continue;
    const std::optional<std::size_t> producer = graph.producer(id);
    parts.from.push_back(producer ? graph.nodes[*producer].name : graph.value(id).name);
  }
  return parts;
}

bool starts_at_inputs(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return graph.value(id).kind != ValueKind::computed; });
}

}  // namespace driftbound
