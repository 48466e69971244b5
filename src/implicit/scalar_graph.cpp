#include "implicit/scalar_graph.hpp"

#include <string>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound::implicit {
namespace {

std::vector<Shape> sample_output_shapes(const Graph& graph) {
  const std::vector<Shape> shapes = infer_shapes(graph, batch_layout(graph).sample_shapes);
  std::vector<Shape> outputs;
  for (const ValueId id : graph.outputs) outputs.push_back(shapes[id]);
  return outputs;
}

void require_element(const Graph& graph, const std::vector<Shape>& outputs, const OutputElement& element) {
  if (element.output >= outputs.size())
    throw InvalidArgument("signs: there is no output " + std::to_string(element.output) + ", the network has " +
                          std::to_string(outputs.size()));
  const std::int64_t elements = element_count(outputs[element.output]);
  if (element.element < 0 || element.element >= elements)
    throw InvalidArgument("signs: there is no element " + std::to_string(element.element) + " of output '" +
                          graph.value(graph.outputs[element.output]).name + "', which has " + std::to_string(elements));
}

class Extension {
public:
  explicit Extension(const Graph& graph)
      : graph_(graph), batched_(batch_layout(graph).batched), outputs_(sample_output_shapes(graph)) {
    graph_.values[graph_.inputs.front()].type = ElementType::f64;
  }

  ValueId element(const OutputElement& element, const std::string& name) {
    const std::vector<std::int64_t> rows = {batched_ ? 0 : 1, element_count(outputs_[element.output])};
    const ValueId row =
        graph_.add_node("sign/" + name + "/row", op::Reshape{rows, false}, {graph_.outputs[element.output]});
    return graph_.add_node("sign/" + name, op::Gather{1, {1}, {element.element}}, {row});
  }
  ValueId difference(ValueId a, ValueId b, const std::string& name) {
    return graph_.add_node("sign/" + name, op::Sub{}, {a, b});
  }
  ValueId constant(double value) {
    return graph_.add_constant("sign/iso value", StoredTensor::from(Tensor<double>({1, 1}, {value})));
  }
  Graph with_output(ValueId id) && {
    graph_.outputs = {id};
    return std::move(graph_);
  }

private:
  Graph graph_;
  bool batched_;
  std::vector<Shape> outputs_;
};

}  // namespace

Target checked_target(const Graph& graph, const Target* target) {
  validate(graph);
  if (graph.inputs.size() != 1)
    throw InvalidArgument("signs: a point feeds a network with one input, this one has " +
                          std::to_string(graph.inputs.size()));
  if (!is_float(graph.value(graph.inputs[0]).type))
    throw InvalidArgument("signs: input '" + graph.value(graph.inputs[0]).name + "' holds no floats");
  const std::vector<Shape> outputs = sample_output_shapes(graph);
  if (target == nullptr) {
    if (outputs.size() != 1 || element_count(outputs[0]) != 1)
      throw InvalidArgument(
          "signs: the network has more than one output element a point; name one, or two to subtract");
    return {};
  }
  require_element(graph, outputs, target->positive);
  if (target->negative) require_element(graph, outputs, *target->negative);
  return *target;
}

Graph scalar_graph(const Graph& graph, const Target& target, double iso) {
  Extension extension(graph);
  ValueId scalar = extension.element(target.positive, "positive");
  if (target.negative)
    scalar = extension.difference(scalar, extension.element(*target.negative, "negative"), "difference");
  if (iso != 0.0) scalar = extension.difference(scalar, extension.constant(iso), "iso");
  return std::move(extension).with_output(scalar);
}

}  // namespace driftbound::implicit
