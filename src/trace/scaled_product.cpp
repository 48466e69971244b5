#include "trace/scaled_product.hpp"

#include <utility>

#include "model/convert.hpp"

namespace driftbound {

ValueId add_scaled_product(Graph& graph, const std::string& name, op::Gemm gemm, std::vector<ValueId> inputs) {
  const auto scale = [&](std::size_t slot, double& factor, const std::string& scaled) {
    if (slot >= inputs.size() || factor == 1.0) return;
    const ElementType type = graph.value(inputs[slot]).type;
    const StoredTensor exact = StoredTensor::from(Tensor<double>({}, {std::exchange(factor, 1.0)}));
    ValueId number = graph.add_constant(scaled + "/factor", exact);
    if (!converts_exactly(exact, type)) number = graph.add_node(scaled + "/read", op::Cast{type}, {number});
    inputs[slot] = graph.add_node(scaled, op::Mul{}, {inputs[slot], number});
    graph.values[inputs[slot]].type = type;
  };
  scale(0, gemm.alpha, name + "/scaled");
  scale(2, gemm.beta, name + "/addend");
  return graph.add_node(name, gemm, std::move(inputs));
}

}  // namespace driftbound
