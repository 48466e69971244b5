#include "program/flatten.hpp"

#include <utility>

#include "driftbound/model/composite.hpp"

namespace driftbound {
namespace {

class Flattener {
public:
  Flattener(const Graph& graph, const std::vector<Shape>& input_shapes)
      : original_(graph), shapes_(infer_shapes(graph, input_shapes)) {
    flat_.of_value.resize(graph.values.size());
    flat_.graph.name = graph.name;
    flat_.graph.source = graph.source;
    flat_.graph.format = graph.format;
  }

  FlatGraph run() && {
    for (ValueId id = 0; id < original_.values.size(); ++id) {
      if (original_.value(id).kind != ValueKind::computed) flat_.of_value[id] = add(original_.value(id));
    }
    for (std::size_t node = 0; node < original_.nodes.size(); ++node) write(node);
    for (const ValueId id : original_.inputs) flat_.graph.inputs.push_back(flat_.of_value[id]);
    for (const ValueId id : original_.outputs) flat_.graph.outputs.push_back(flat_.of_value[id]);
    flat_.shapes = infer_shapes(flat_.graph, input_shapes());
    return std::move(flat_);
  }

private:
  std::vector<Shape> input_shapes() const {
    std::vector<Shape> shapes;
    for (const ValueId id : original_.inputs) shapes.push_back(shapes_[id]);
    return shapes;
  }

  ValueId add(Value value) {
    flat_.graph.values.push_back(std::move(value));
    return flat_.graph.values.size() - 1;
  }

  void add_node(const std::string& name, const Op& op, std::vector<ValueId> inputs, ValueId output, std::size_t owner) {
    flat_.graph.nodes.push_back({name, op, std::move(inputs), output});
    flat_.of_node.push_back(owner);
  }

  void write(std::size_t index) {
    const Node& node = original_.nodes[index];
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(flat_.of_value[id]);
    if (is_composite(node.op)) {
      flat_.of_value[node.output] = write_body(index, inputs);
      return;
    }
    flat_.of_value[node.output] = add(original_.value(node.output));
    add_node(node.name, node.op, std::move(inputs), flat_.of_value[node.output], index);
  }

  /// Appends the body of a composite. Returns the value in the flat graph that holds the composite's output.
  ValueId write_body(std::size_t index, const std::vector<ValueId>& operands) {
    const Node& node = original_.nodes[index];
    std::vector<Shape> operand_shapes;
    for (const ValueId id : node.inputs) operand_shapes.push_back(shapes_[id]);
    const Graph body = composite_body(node.op, operand_shapes);
    std::vector<ValueId> of_body(body.values.size());
    for (std::size_t slot = 0; slot < operands.size(); ++slot) of_body[body.inputs[slot]] = operands[slot];
    for (ValueId id = 0; id < body.values.size(); ++id) {
      if (body.value(id).kind == ValueKind::input) continue;
      of_body[id] = add(body.value(id));
      if (body.value(id).kind == ValueKind::computed)
        flat_.graph.values[of_body[id]].type = original_.value(node.output).type;
    }
    for (const Node& step : body.nodes) {
      std::vector<ValueId> inputs;
      for (const ValueId id : step.inputs) inputs.push_back(of_body[id]);
      add_node(node.name + "/" + step.name, step.op, std::move(inputs), of_body[step.output], index);
    }
    const ValueId output = of_body[body.outputs.front()];
    if (body.value(body.outputs.front()).kind == ValueKind::computed) return output;
    const ValueId result = add(original_.value(node.output));  // the operand is the composite's result
    add_node(node.name, op::Identity{}, {output}, result, index);
    return result;
  }

  const Graph& original_;
  std::vector<Shape> shapes_;
  FlatGraph flat_;
};

}  // namespace

FlatGraph flatten(const Graph& graph, const std::vector<Shape>& input_shapes) {
  return Flattener(graph, input_shapes).run();
}

}  // namespace driftbound
