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
#include "model/convert.hpp"
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
        nodes_(graph.nodes),
        joined_(graph.nodes.size()),
        placed_(graph.values.size()),
        recorded_(recorded) {
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) producer_[graph.nodes[node].output] = node;
    for (const std::size_t node : recorded) is_recorded_.at(graph.nodes.at(node).output) = true;
    to_.name = graph.name;
    to_.source = graph.source;
    to_.format = graph.format;
  }

  RecordedGraph run() && {
    if (recorded_.empty()) throw InvalidArgument("none of the graph's nodes is recorded");
    for (const ValueId id : from_.inputs) to_.inputs.push_back(place(id));
    fold_constants();
    note_roundings();
    join_products();
    for (const std::size_t node : recorded_) add(node);
    add_outputs();
    return {std::move(to_), std::move(segments_)};
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

  /// Shapes of all values for one sample; empty where they are not known.
  std::vector<Shape> shapes() const {
    try {
      return infer_shapes(from_, batch_layout(from_).sample_shapes);
    } catch (const Error&) {
      return {};
    }
  }

  /// Makes a Gemm of the addition of a row of constants to a product that nothing else reads and nothing rounds.
  void join_products() {
    const std::vector<Shape> shape = shapes();
    if (shape.empty()) return;
    std::vector<std::size_t> readers(from_.values.size(), 0);
    for (const Node& node : from_.nodes)
      for (const ValueId id : node.inputs) ++readers[id];
    for (const ValueId id : from_.outputs) ++readers[id];
    const auto is_constant = [&](ValueId id, std::size_t rank) {
      return (from_.is_constant(id) || folded_[id]) && shape[id].size() == rank;
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!std::holds_alternative<op::Add>(nodes_[i].op)) continue;
      for (const bool is_first : {true, false}) {
        const ValueId sum = nodes_[i].inputs[is_first ? 0 : 1], addend = nodes_[i].inputs[is_first ? 1 : 0];
        if (is_leaf(sum) || readers[sum] != 1 || is_rounded_.count(sum) != 0 || !is_constant(addend, 1)) continue;
        const Node& product = nodes_[*producer_[sum]];
        const bool is_product = std::holds_alternative<op::MatMul>(product.op) && is_constant(product.inputs[1], 2) &&
                                shape[product.inputs[0]].size() > 1 && shape[addend][0] == shape[sum].back();
        if (!is_product) continue;
        joined_[i] = *producer_[sum];
        nodes_[i].op = op::Gemm{};
        nodes_[i].inputs = {product.inputs[0], product.inputs[1], addend};
        break;
      }
    }
  }

  void add(std::size_t index) {
    const std::set<std::size_t> steps = steps_of(index);
    std::vector<ValueId> inputs;
    Op op = nodes_[index].op;
    if (steps.size() == 1) {
      for (const ValueId id : nodes_[index].inputs) inputs.push_back(place(id));
    } else {
      op = segment(index, steps, inputs);
    }
    segments_.push_back(parts_of(steps));
    const ValueId output = place(nodes_[index].output);
    to_.nodes.push_back({nodes_[index].name, std::move(op), std::move(inputs), output});
  }

  /// Nodes between the leaves and this one, and this one, in graph order.
  std::set<std::size_t> steps_of(std::size_t index) const {
    std::set<std::size_t> steps = {index};
    std::vector<std::size_t> open = {index};
    while (!open.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      for (const ValueId id : nodes_[next].inputs)
        if (!is_leaf(id) && steps.insert(*producer_[id]).second) open.push_back(*producer_[id]);
    }
    return steps;
  }

  SegmentParts parts_of(const std::set<std::size_t>& steps) const {
    SegmentParts parts;
    std::set<ValueId> given;
    for (const std::size_t step : steps) {
      if (joined_[step]) parts.nodes.push_back(from_.nodes[*joined_[step]].name);
      parts.nodes.push_back(from_.nodes[step].name);
      for (const ValueId id : nodes_[step].inputs) {
        if (!is_leaf(id) || !depends_[id] || !given.insert(id).second) continue;
        parts.from.push_back(producer_[id] ? from_.nodes[*producer_[id]].name : from_.value(id).name);
      }
    }
    return parts.nodes.size() > 1 ? parts : SegmentParts();
  }

  Op segment(std::size_t index, const std::set<std::size_t>& numbers, std::vector<ValueId>& inputs) {
    auto steps = std::make_shared<Graph>();
    std::map<ValueId, ValueId> inside;
    for (const std::size_t step : numbers) {
      const Node& node = nodes_[step];
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
    steps->outputs = {inside.at(nodes_[index].output)};
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
    const std::vector<bool> depends = depends_on_input(to_);
    for (const bool of_inputs : {true, false})  // samples have no part in results of constants
      for (const Node& node : to_.nodes)
        if (read.count(node.output) == 0 && depends[node.output] == of_inputs && (of_inputs || to_.outputs.empty()))
          to_.outputs.push_back(node.output);
  }

  const Graph& from_;
  const ArithmeticModel& arithmetic_;
  std::vector<std::optional<std::size_t>> producer_;  ///< by value
  std::vector<bool> is_recorded_, depends_;
  std::set<ValueId> is_rounded_;  ///< results that are rounded when they are stored
  std::vector<std::optional<StoredTensor>> folded_;
  std::vector<Node> nodes_;                         ///< those of the graph, products joined with what is added
  std::vector<std::optional<std::size_t>> joined_;  ///< the product of a node that was made a Gemm
  std::vector<std::optional<ValueId>> placed_;
  const std::vector<std::size_t>& recorded_;
  Graph to_;
  std::vector<SegmentParts> segments_;
};

}  // namespace

RecordedGraph recorded_graph(const Graph& graph, const std::vector<std::size_t>& recorded,
                             const ArithmeticModel& arithmetic) {
  return Contraction(graph, recorded, arithmetic).run();
}

void fit_samples(const Graph& model, const RecordedGraph& recorded, Trace& trace) {
  const bool is_together = batch_layout(recorded.graph).batched;
  if (is_together == batch_layout(model).batched) return;
  if (!is_together)
    throw Unsupported(
        "the recorded layers are of samples that were evaluated together, and are not seen to be apart "
        "without the layers that are not recorded");
  const std::vector<bool> depends = depends_on_input(recorded.graph);
  for (std::size_t i = 0; i < trace.layers.size(); ++i) {
    if (!depends[recorded.graph.nodes.at(i).output]) continue;
    StoredTensor& output = trace.layers[i].output;
    Shape rows = output.shape();
    rows.erase(rows.begin() + 1);  // of one row a sample
    output = reshaped(output, std::move(rows));
  }
}

}  // namespace driftbound
