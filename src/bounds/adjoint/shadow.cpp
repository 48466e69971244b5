#include "bounds/adjoint/shadow.hpp"

#include <algorithm>
#include <utility>

#include "bounds/centre.hpp"

namespace driftbound::bounds {

NodeView Shadow::view_of(const Node& node) const {
  NodeView view;
  view.node = &node;
  for (const ValueId id : node.inputs) view.inputs.push_back(&values[id]);
  view.output = &values[node.output];
  return view;
}

Shadow shadow_of(const Network& network, const std::vector<Tensor<double>>& inputs, const Setting& setting) {
  const Graph& graph = network.flat().graph;
  Shadow shadow;
  shadow.values.resize(network.size());
  shadow.error.resize(network.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) shadow.values[graph.inputs[i]] = inputs[i];
  for (ValueId id = 0; id < network.size(); ++id) {
    if (graph.is_constant(id)) shadow.values[id] = graph.value(id).constant.to_double();
  }
  for (const Node& node : graph.nodes) {
    Centre centre = centre_of_node(shadow.view_of(node), network.shape(node.output), setting);
    const bool is_exact = std::all_of(centre.error.begin(), centre.error.end(), [](double e) { return e == 0.0; });
    shadow.values[node.output] = std::move(centre.value);
    if (!is_exact) shadow.error[node.output] = std::move(centre.error);
  }
  return shadow;
}

}  // namespace driftbound::bounds
