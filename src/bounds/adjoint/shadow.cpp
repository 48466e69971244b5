#include "bounds/adjoint/shadow.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/plain_rows.hpp"

namespace driftbound::bounds {

NodeView Shadow::view_of(const Node& node) const {
  NodeView view;
  view.node = &node;
  for (const ValueId id : node.inputs) view.inputs.push_back(&value(id));
  view.output = &value(node.output);
  return view;
}

Shadow shadow_of(const Program& program, const std::vector<Tensor<double>>& inputs, const Setting& setting,
                 OperandCache* packed) {
  const Graph& graph = program.flat().graph;
  Shadow shadow;
  shadow.values.resize(program.size());
  shadow.error.resize(program.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) shadow.values[graph.inputs[i]] = inputs[i];
  const std::vector<bool> are_matrices = constant_matrices(program);
  if (packed != nullptr) shadow.kept_elsewhere.assign(program.size(), nullptr);
  for (ValueId id = 0; id < program.size(); ++id) {
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
        packed != nullptr && program.varies(node.output) && multiplies_by_constant(program, node);
    std::optional<Centre> quick;
    if (may_be_packed) quick = plain_centre(view, program.shape(node.output), setting, *packed);
    Centre centre = quick ? std::move(*quick) : centre_of_node(view, program.shape(node.output), setting);
    const bool is_exact = std::all_of(centre.error.begin(), centre.error.end(), [](double e) { return e == 0.0; });
    shadow.values[node.output] = std::move(centre.value);
    if (!is_exact) shadow.error[node.output] = std::move(centre.error);
  }
  return shadow;
}

}  // namespace driftbound::bounds
