#include "bounds/adjoint/shadow.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "bounds/adjoint/plain_rows.hpp"
#include "bounds/adjoint/weights.hpp"
#include "bounds/centre.hpp"

namespace driftbound::bounds {

NodeView Shadow::view_of(const Node& node) const {
  NodeView view;
  view.node = &node;
  for (const ValueId id : node.inputs) view.inputs.push_back(&value(id));
  view.output = &value(node.output);
  return view;
}

Shadow shadow_of(const Network& network, const std::vector<Tensor<double>>& inputs, const Setting& setting,
                 Weights* packed) {
  const Graph& graph = network.flat().graph;
  Shadow shadow;
  shadow.values.resize(network.size());
  shadow.error.resize(network.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) shadow.values[graph.inputs[i]] = inputs[i];
  const std::vector<bool> are_matrices = constant_matrices(network);
  if (packed != nullptr) shadow.kept_elsewhere.assign(network.size(), nullptr);
  for (ValueId id = 0; id < network.size(); ++id) {
    if (!graph.is_constant(id)) continue;
    const StoredTensor& constant = graph.value(id).constant;
    if (packed != nullptr && are_matrices[id]) {
      shadow.kept_elsewhere[id] = &packed->constant(constant);
    } else {
      shadow.values[id] = constant.to_double();
    }
  }
  for (const Node& node : graph.nodes) {
    const NodeView view = shadow.view_of(node);
    const bool may_be_packed =
        packed != nullptr && network.varies(node.output) && multiplies_by_constant(network, node);
    std::optional<Centre> quick;
    if (may_be_packed) quick = plain_centre(view, network.shape(node.output), setting, *packed);
    Centre centre = quick ? std::move(*quick) : centre_of_node(view, network.shape(node.output), setting);
    const bool is_exact = std::all_of(centre.error.begin(), centre.error.end(), [](double e) { return e == 0.0; });
    shadow.values[node.output] = std::move(centre.value);
    if (!is_exact) shadow.error[node.output] = std::move(centre.error);
  }
  return shadow;
}

}  // namespace driftbound::bounds
