#pragma once

#include <vector>

#include "bounds/adjoint/block_bounds.hpp"
#include "support/run_checks.hpp"

namespace checks {

/// One block of a network, with and without the loops over rows.
struct TwoWays {
  bounds::TargetCertificate by_rows, in_full;

  TwoWays(const Graph& graph, const Tensor<double>& x, double radius, std::int64_t refined_radii = 32,
          const bounds::Rules& rules = bounds::default_rules()) {
    const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
    const bounds::Setting setting = setting_of(rules, arithmetic);
    const bounds::Network network(graph, {x.shape}, x.shape.front());
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(x));
    const Trace trace = cpu_evaluator(arithmetic).run(graph, inputs);
    std::vector<Tensor<double>> layers;
    for (const LayerTrace& layer : trace.layers) layers.push_back(layer.output.to_double());
    bounds::RecordedBlock block;
    for (const Tensor<double>& layer : layers) block.layers.push_back(&layer);
    block.given = block.used = {x};
    block.input_error = {std::vector<double>(x.size(), radius)};
    const std::vector<Target> targets = {{{0, 1}, OutputElement{0, 0}}};
    bounds::Weights weights;
    bounds::AdjointQuestion question;
    question.refined_radii = refined_radii;
    question.attributed = question.conditioned = 1;
    question.chance = {4.0, 6.0};
    by_rows = bounds::block_bounds(network, block, targets, question, setting, weights).targets[0];
    in_full = bounds::block_bounds_in_full(network, block, targets, question, setting, weights).targets[0];
  }
};

/// Bounds that leave roundings to chance, by loops over rows, next to those element by element.
inline Tally check_chance_by_rows(const bounds::Rules& rules, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const Graph graph = network_of_rows("relu", generator);
    const TwoWays ways(graph, network_inputs(1.0, false, generator), 0.0, 0, rules);
    for (const auto which : {&bounds::ChanceBounds::martingale, &bounds::ChanceBounds::random_order}) {
      const std::vector<double>& by_rows = (ways.by_rows.chance.*which)->total;
      for (std::size_t row = 0; row < by_rows.size(); ++row)
        tally.violations += by_rows[row] >= 0.97 * (ways.in_full.chance.*which)->total[row] ? 0 : 1;
    }
  }
  return tally;
}

}  // namespace checks
