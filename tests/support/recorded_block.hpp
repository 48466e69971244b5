#pragma once

#include <optional>
#include <vector>

#include "bounds/blocks/block_bounds.hpp"
#include "bounds/local/local.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "driftbound/trace/trace.hpp"

namespace checks {

using namespace driftbound;

/// A run as bounds by two trajectories read it, next to a network at inputs of its own, with the sums of magnitudes that
/// the run's local bounds have found.
class RecordedRunOf {
public:
  /// `setting`: of the run; `weights`: those that the bounds will use.
  RecordedRunOf(const Graph& graph, const Trace& trace, const Tensor<double>& given, double radius,
                bounds::Setting setting, bounds::OperandCache& operands) {
    setting.operands = &operands;
    for (const LayerTrace& layer : trace.layers) layers_.push_back(layer.output.to_double());
    const Tensor<double> used = trace.inputs.tensors.front().second.to_double();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      bounds::NodeView view{&graph.nodes[i], {}, &layers_[i]};
      for (const ValueId id : graph.nodes[i].inputs) {
        const std::optional<std::size_t> node = graph.producer(id);
        view.inputs.push_back(node                    ? &layers_[*node]
                              : graph.is_constant(id) ? &operands.constant(graph.value(id).constant)
                                                      : &used);
      }
      sums_.push_back(bounds::local_bound(view, setting).sums);
    }
    for (const Tensor<double>& layer : layers_) block_.layers.push_back(&layer);
    for (const std::optional<bounds::CoarseProducts>& sums : sums_) block_.sums.push_back(sums ? &*sums : nullptr);
    block_.given = {given};
    block_.used = {used};
    block_.input_error = {std::vector<double>(given.size(), radius)};
  }
  RecordedRunOf(const RecordedRunOf&) = delete;
  RecordedRunOf& operator=(const RecordedRunOf&) = delete;

  const bounds::RecordedBlock& block() const { return block_; }

private:
  std::vector<Tensor<double>> layers_;
  std::vector<std::optional<bounds::CoarseProducts>> sums_;
  bounds::RecordedBlock block_;
};

}  // namespace checks
