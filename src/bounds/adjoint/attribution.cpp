#include "bounds/adjoint/attribution.hpp"

#include <algorithm>
#include <utility>

#include "bounds/adjoint/secants.hpp"
#include "bounds/adjoint/transpose.hpp"
#include "bounds/centre.hpp"

namespace driftbound::bounds {
namespace {

NodeView view_of(const std::vector<Tensor<double>>& values, const Node& node) {
  NodeView view;
  view.node = &node;
  for (const ValueId id : node.inputs) view.inputs.push_back(&values[id]);
  view.output = &values[node.output];
  return view;
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

}  // namespace

RecordedRun::RecordedRun(const Network& network, const Shadow& shadow,
                         const std::vector<const Tensor<double>*>& recorded, const std::vector<Tensor<double>>& used,
                         const Setting& setting)
    : network_(network), shadow_(shadow), setting_(setting), values_(shadow.values), rounding_(network.size()) {
  const Graph& graph = network.flat().graph;
  for (std::size_t i = 0; i < used.size(); ++i) {
    values_[graph.inputs[i]] = used[i];
    rounding_[graph.inputs[i]] = difference(used[i].values, shadow.values[graph.inputs[i]].values);
  }
  std::vector<const Tensor<double>*> recorded_value(network.size(), nullptr);
  for (std::size_t node = 0; node < recorded.size(); ++node)
    recorded_value[network.value_of_node(node)] = recorded[node];
  for (const Node& node : network.nodes()) {
    Tensor<double> value = centre_of_node(view_of(values_, node), network.shape(node.output), setting).value;
    if (const Tensor<double>* run = recorded_value[node.output]) {
      rounding_[node.output] = difference(run->values, value.values);
      value = *run;
    }
    values_[node.output] = std::move(value);
    slopes_.push_back(approx_secants(view_of(values_, node), shadow.view_of(node), setting));
  }
}

/// A node between its operands in the run and in the shadow: products are linear in each operand at the mean of the
/// other.
struct RecordedRun::Step {
  NodeView view;
  std::vector<Tensor<double>> means;

  Step(const NodeView& run, const NodeView& shadow) : view(shadow) {
    if (!std::holds_alternative<op::Gemm>(view.node->op) && !std::holds_alternative<op::MatMul>(view.node->op)) return;
    means.reserve(view.inputs.size());
    for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
      Tensor<double> mean = shadow.input(slot);
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean.values[i] += 0.5 * (run.input(slot).values[i] - mean.values[i]);
      means.push_back(std::move(mean));
      view.inputs[slot] = &means.back();
    }
  }
};

Attribution RecordedRun::attribute(const Direction& c) const {
  std::vector<std::vector<double>> d(network_.size());
  const auto add = [&](ValueId id, const std::vector<double>& more) {
    if (d[id].empty()) d[id].assign(more.size(), 0.0);
    for (std::size_t i = 0; i < more.size(); ++i) d[id][i] += more[i];
  };
  for (const auto& [value, tensor] : c) add(value, tensor);

  const auto rows = static_cast<std::size_t>(network_.rows());
  Attribution parts;
  parts.inputs.assign(rows, 0.0);
  parts.layers.assign(network_.flat().of_node.empty() ? 0 : network_.flat().of_node.back() + 1,
                      std::vector<double>(rows, 0.0));
  const auto charge = [&](ValueId id, std::vector<double>& into) {
    if (d[id].empty() || rounding_[id].empty()) return;
    const std::size_t size = network_.rows(id) == 1 ? d[id].size() : d[id].size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = network_.rows(id) == 1 ? 0 : row * size;
      for (std::size_t i = 0; i < size; ++i) into[row] += d[id][first + i] * rounding_[id][first + i];
    }
  };
  for (std::size_t index = network_.nodes().size(); index-- > 0;) {
    const Node& node = network_.nodes()[index];
    if (d[node.output].empty()) continue;
    charge(node.output, parts.layers[network_.flat().of_node[index]]);
    const NodeView run = view_of(values_, node), shadow = shadow_.view_of(node);
    if (std::holds_alternative<op::Softmax>(node.op)) {
      add(node.inputs[0], approx_softmax_secant(run, shadow, d[node.output]));
      continue;
    }
    const Step step(run, shadow);
    const std::vector<bool> wanted(node.inputs.size(), true);
    const std::vector<Transposed> shares = transposed(step.view, slopes_[index], d[node.output], wanted, setting_);
    for (std::size_t slot = 0; slot < shares.size(); ++slot) {
      if (!network_.flat().graph.is_constant(node.inputs[slot])) add(node.inputs[slot], shares[slot].values);
    }
  }
  for (const ValueId id : network_.flat().graph.inputs) charge(id, parts.inputs);
  return parts;
}

}  // namespace driftbound::bounds
