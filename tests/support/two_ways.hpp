#pragma once

#include <vector>

#include "bounds/blocks/block_bounds.hpp"
#include "support/run_checks.hpp"

namespace checks {

/// One block of a network, with and without the loops over rows.
struct TwoWays {
  bounds::TargetCertificate by_rows, in_full;

  TwoWays(const Graph& graph, const Tensor<double>& x, double radius, std::int64_t refined_radii = 32)
      : by_rows(targets_of(bounds::block_bounds, graph, x, radius, refined_radii, {difference()})[0]),
        in_full(targets_of(bounds::block_bounds_in_full, graph, x, radius, refined_radii, {difference()})[0]) {}

  /// Of several targets, no radii refined.
  static std::vector<bounds::TargetCertificate> by_rows_of(const Graph& graph, const Tensor<double>& x,
                                                           const std::vector<Target>& targets) {
    return targets_of(bounds::block_bounds, graph, x, 0.0, 0, targets);
  }

private:
  static Target difference() { return {{0, 1}, OutputElement{0, 0}}; }

  static std::vector<bounds::TargetCertificate> targets_of(decltype(bounds::block_bounds)& bounds_of,
                                                           const Graph& graph, const Tensor<double>& x, double radius,
                                                           std::int64_t refined_radii,
                                                           const std::vector<Target>& targets) {
    const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
    const bounds::Setting setting = setting_of(arithmetic);
    const Program program(graph, {x.shape}, x.shape.front());
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(x));
    const Trace trace = cpu_evaluator(arithmetic).run(graph, inputs);
    bounds::BoundCache operands;
    const RecordedRunOf run(graph, trace, x, radius, setting, operands);
    bounds::AdjointRequest request;
    request.refined_radii = refined_radii;
    request.attributed = request.conditioned = targets.size();
    request.chance = {4.0, 6.0};
    return bounds_of(program, run.block(), targets, request, setting, operands).targets;
  }
};

/// Bounds that leave roundings to chance, by loops over rows, next to those element by element.
inline Tally check_chance_by_rows(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const Graph graph = network_of_rows("relu", generator);
    const TwoWays ways(graph, network_inputs(1.0, false, generator), 0.0, 0);
    for (const auto which : {&bounds::ChanceBounds::martingale, &bounds::ChanceBounds::random_order}) {
      const std::vector<double>& by_rows = (ways.by_rows.chance.*which)->total;
      for (std::size_t row = 0; row < by_rows.size(); ++row)
        tally.violations += by_rows[row] >= 0.97 * (ways.in_full.chance.*which)->total[row] ? 0 : 1;
    }
  }
  return tally;
}

}  // namespace checks
