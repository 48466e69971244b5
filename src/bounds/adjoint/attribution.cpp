#include "bounds/adjoint/attribution.hpp"

#include <algorithm>
#include <utility>

#include "bounds/nodes/recorded_block.hpp"
#include "bounds/nodes/secants.hpp"
#include "bounds/nodes/transpose.hpp"

namespace driftbound::bounds {
namespace {

/// Takes a recorded value for the one at recorded operands; what lies between is the rounding.
std::vector<double> put_in(const Tensor<double>& recorded, ExtendedValue& value) {
  std::vector<double> rounding;
  value.step.resize(recorded.size());
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const Extended difference = static_cast<Extended>(recorded.values[i]) - value.run.values[i];
    value.step[i] += difference;
    rounding.push_back(static_cast<double>(difference));
  }
  value.run = widened(recorded);
  if (std::all_of(value.step.begin(), value.step.end(), [](Extended x) { return x == 0; })) value.step.clear();
  return rounding;
}

}  // namespace

RecordedRun::RecordedRun(const Program& program, const Shadow& shadow, const RecordedBlock& block,
                         const Setting& setting)
    : program_(program), shadow_(shadow), setting_(setting), values_(program.size()), rounding_(program.size()) {
  const Graph& graph = program.flat().graph;
  for (std::size_t i = 0; i < block.used.size(); ++i) {
    values_[graph.inputs[i]].run = widened(shadow.value(graph.inputs[i]));
    rounding_[graph.inputs[i]] = put_in(block.used[i], values_[graph.inputs[i]]);
  }
  std::vector<const Tensor<double>*> recorded(program.size(), nullptr);
  std::vector<const Tensor<Ball>*> exact(program.size(), nullptr);
  for (std::size_t node = 0; node < block.layers.size(); ++node) {
    recorded[program.value_of_node(node)] = block.layers[node];
    if (!block.exact.empty()) exact[program.value_of_node(node)] = block.exact[node];
  }
  for (const Node& node : program.nodes()) {
    ExtendedView view{&node, {}};
    for (const ValueId id : node.inputs) view.inputs.push_back(graph.is_constant(id) ? nullptr : &values_[id]);
    ExtendedImage image = approx_image(view, shadow.view_of(node), program.shape(node.output), exact[node.output]);
    slopes_.push_back(approx_secants(view, image, shadow.view_of(node), setting));
    values_[node.output] = {std::move(image.run), std::move(image.change)};
    if (const Tensor<double>* run = recorded[node.output]) rounding_[node.output] = put_in(*run, values_[node.output]);
  }
}

/// A node between its operands on both trajectories: products are linear in each operand at the mean of the other.
struct RecordedRun::Step {
  NodeView view;
  std::vector<Tensor<double>> means;

  Step(const NodeView& shadow, const Graph& graph, const std::vector<ExtendedValue>& values) : view(shadow) {
    if (!std::holds_alternative<op::Gemm>(view.node->op) && !std::holds_alternative<op::MatMul>(view.node->op)) return;
    means.reserve(view.inputs.size());
    for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
      if (graph.is_constant(view.node->inputs[slot])) continue;
      const ExtendedValue& value = values[view.node->inputs[slot]];
      Tensor<double>& mean = means.emplace_back(value.run.shape);
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean.values[i] = static_cast<double>(value.run.values[i] - value.step_at(i) / 2);
      view.inputs[slot] = &mean;
    }
  }
};

Attribution RecordedRun::attribute(const Direction& c) const {
  std::vector<std::vector<double>> d(program_.size());
  const auto add = [&](ValueId id, const std::vector<double>& more) {
    if (d[id].empty()) d[id].assign(more.size(), 0.0);
    for (std::size_t i = 0; i < more.size(); ++i) d[id][i] += more[i];
  };
  for (const auto& [value, tensor] : c) add(value, tensor);

  const auto rows = static_cast<std::size_t>(program_.rows());
  Attribution parts;
  parts.inputs.assign(rows, 0.0);
  parts.layers.assign(program_.flat().of_node.empty() ? 0 : program_.flat().of_node.back() + 1,
                      std::vector<double>(rows, 0.0));
  const auto charge = [&](ValueId id, std::vector<double>& into) {
    if (d[id].empty() || rounding_[id].empty()) return;
    const std::size_t size = program_.rows(id) == 1 ? d[id].size() : d[id].size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = program_.rows(id) == 1 ? 0 : row * size;
      for (std::size_t i = 0; i < size; ++i) into[row] += d[id][first + i] * rounding_[id][first + i];
    }
  };
  for (std::size_t index = program_.nodes().size(); index-- > 0;) {
    const Node& node = program_.nodes()[index];
    if (d[node.output].empty()) continue;
    charge(node.output, parts.layers[program_.flat().of_node[index]]);
    const NodeView shadow = shadow_.view_of(node);
    if (std::holds_alternative<op::Softmax>(node.op)) {
      if (program_.flat().graph.is_constant(node.inputs[0])) continue;
      add(node.inputs[0], approx_softmax_secant(values_[node.inputs[0]], shadow, d[node.output]));
      continue;
    }
    const Step step(shadow, program_.flat().graph, values_);
    std::vector<bool> wanted;
    for (const ValueId input : node.inputs) wanted.push_back(!program_.flat().graph.is_constant(input));
    const std::vector<Transposed> shares = transposed(step.view, slopes_[index], d[node.output], wanted, setting_);
    for (std::size_t slot = 0; slot < shares.size(); ++slot) {
      if (wanted[slot]) add(node.inputs[slot], shares[slot].values);
    }
  }
  for (const ValueId id : program_.flat().graph.inputs) charge(id, parts.inputs);
  return parts;
}

}  // namespace driftbound::bounds
