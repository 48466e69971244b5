#include "bounds/local/replayed.hpp"

#include <utility>

#include "bounds/local/determined.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "model/convert.hpp"

namespace driftbound::bounds::inline theorems {

std::vector<Tensor<double>> replayed(const Graph& graph, const Trace& trace, const KernelsByNode& kernels,
                                     int threads) {
  const bool batched = batch_layout(graph).batched;
  Inputs inputs = trace.inputs;
  for (auto& [name, tensor] : inputs.tensors) {
    if (batched) continue;
    Shape shape = tensor.shape();
    shape.insert(shape.begin(), 1);
    tensor = reshaped(tensor, shape);
  }
  RunOptions options;
  options.threads = threads;
  const Trace run = cpu_evaluator(executed_by_kernels(trace.arithmetic, kernels), kernels).run(graph, inputs, options);
  std::vector<Tensor<double>> layers;
  for (std::size_t node = 0; node < run.layers.size(); ++node)
    layers.push_back({trace.layers[node].output.shape(), run.layers[node].output.to_double().values});
  return layers;
}

}  // namespace driftbound::bounds::inline theorems
