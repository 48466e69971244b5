#include "soundness/lone_node.hpp"

#include <fmt/format.h>

#include <string>

#include "driftbound/evaluate/evaluator.hpp"

namespace driftbound::soundness {

StoredTensor evaluated_alone(const Node& node, const std::vector<StoredTensor>& values, const std::vector<bool>& varies,
                             const ArithmeticModel& arithmetic) {
  Graph alone;
  Inputs inputs;
  std::vector<ValueId> operands;
  for (const ValueId id : node.inputs) {
    const std::string name = fmt::format("operand{}", operands.size());
    if (!varies[id]) {
      operands.push_back(alone.add_constant(name, values[id]));
      continue;
    }
    std::vector<DeclaredDimension> declared = {{-1, "batch"}};
    for (std::size_t axis = 1; axis < values[id].shape().size(); ++axis)
      declared.push_back({values[id].shape()[axis], ""});
    operands.push_back(alone.add_input(name, values[id].type(), declared));
    inputs.tensors.emplace_back(name, values[id]);
  }
  alone.outputs = {alone.add_node(node.name, node.op, operands)};
  return cpu_evaluator(arithmetic).run(alone, inputs).layers.front().output;
}

}  // namespace driftbound::soundness
