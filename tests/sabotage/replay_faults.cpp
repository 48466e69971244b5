#include <cmath>
#include <vector>

#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/replay_checks.hpp"

// Faults in the run of a declared order that is made again (T-97).

namespace checks {
namespace {

std::vector<Tensor<double>> in_another_order(const Graph& graph, const Trace& trace, const KernelsByNode& kernels,
                                             int threads) {
  Trace other = trace;
  other.arithmetic.order = parse_summation_order(trace.arithmetic.order.fma ? "blocked:5" : "blocked:5+fma");
  return proven::replayed(graph, other, kernels, threads);
}

std::vector<Tensor<double>> with_one_bit_flipped(const Graph& graph, const Trace& trace, const KernelsByNode& kernels,
                                                 int threads) {
  std::vector<Tensor<double>> layers = proven::replayed(graph, trace, kernels, threads);
  const auto y = static_cast<float>(layers.back().values[0]);
  layers.back().values[0] = static_cast<double>(std::nextafter(y, 0.0f));
  return layers;
}

std::vector<Tensor<double>> with_another_block(const Graph& graph, const Trace& trace, const KernelsByNode& kernels,
                                               int threads) {
  KernelsByNode others = kernels;
  for (std::optional<ProductKernel>& kernel : others)
    if (kernel && kernel->matrix_unit) kernel->matrix_unit->block *= 2;
  return proven::replayed(graph, trace, others, threads);
}

std::int64_t replays_of_units() {
  return check_replays_of_units(1, 172).bound.violations;
}

std::int64_t replays() {
  return check_replays(1, 97).bound.violations;
}

}  // namespace

std::vector<BoundFault> replay_faults() {
  return {
      {"a run is made again in another order", [](Theorems& r) { r.replayed = in_another_order; }, replays},
      {"a run is made again with one bit flipped", [](Theorems& r) { r.replayed = with_one_bit_flipped; }, replays},
      {"a run is made again by a matrix unit of another block", [](Theorems& r) { r.replayed = with_another_block; },
       replays_of_units},
  };
}

}  // namespace checks
