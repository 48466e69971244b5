#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "faults/theorems.hpp"
#include "soundness/any_run_check.hpp"
#include "soundness/chosen_orders.hpp"
#include "soundness/chosen_sums.hpp"
#include "soundness/random.hpp"
#include "soundness/soundness_check.hpp"
#include "support/approach.hpp"
#include "support/tally.hpp"

namespace driftbound {
namespace {

using soundness::AnyRunCheck;
using soundness::BoundTally;

constexpr const char* declared_orders[] = {"sequential", "pairwise", "blocked:8+fma"};

/// A network of examples/models, an arithmetic, a bound of every run, the share of it that chosen orders have been seen
/// to reach, and how many times the largest error of declared orders theirs is at least, in the mean over points.
struct ChosenCase {
  const char* network;
  const char* arithmetic;
  BoundKind bound;
  double approach;
  double times;
};

/// Element by element.
void keep_larger(std::vector<double>& of, const std::vector<double>& other) {
  if (of.empty()) of.assign(other.size(), 0.0);
  for (std::size_t i = 0; i < of.size(); ++i) of[i] = std::max(of[i], other[i]);
}

double mean_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] / b[i];
  return sum / static_cast<double>(a.size());
}

Inputs inputs_of(const Graph& graph, std::int64_t samples) {
  InputGenerator generator;
  generator.samples = samples;
  return generate_inputs(graph, generator);
}

Trace declared_run(const Graph& graph, const Inputs& inputs, const std::string& arithmetic, const char* order) {
  return cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order(order))).run(graph, inputs);
}

/// Terms of either sign as products of float32 numbers are.
std::vector<float> random_terms(soundness::Random& random, std::size_t count) {
  std::vector<float> terms(count);
  for (float& term : terms) term = static_cast<float>(random.normal()) * static_cast<float>(random.normal());
  return terms;
}

}  // namespace

TEST_CASE("sums in chosen orders err by many roundings, in the direction asked for, and are sums of all terms") {
  soundness::Random random(20261126);
  for (int i = 0; i < 20 * ::test_multiplier(); ++i) {
    const std::vector<float> terms = random_terms(random, 256);
    double exact = 0.0, positive = 0.0, negative = 0.0;
    for (const float term : terms) {
      exact += term;
      (term > 0.0f ? positive : negative) += std::abs(term);
    }
    const double most = std::max(positive, negative);
    const double above = soundness::sum_erring(terms, 1.0) - exact, below = soundness::sum_erring(terms, -1.0) - exact;
    CHECK(above > 30 * 0x1p-24 * most);
    CHECK(below < -30 * 0x1p-24 * most);
    CHECK(std::max(above, -below) <= 255 * 0x1p-24 * (1.0 + 0x1p-15) * most);
  }
  for (int i = 0; i < 100; ++i) {
    std::vector<float> integers(static_cast<std::size_t>(random.integer(0, 70)));
    for (float& term : integers) term = static_cast<float>(random.integer(-1000, 1000));
    const float sum = std::accumulate(integers.begin(), integers.end(), 0.0f);
    CHECK(soundness::sum_erring(integers, 1.0) == sum);
    CHECK(soundness::sum_erring(integers, -1.0) == sum);
  }
  CHECK(std::isinf(soundness::sum_erring({1.0f, HUGE_VALF, 2.0f}, -1.0)));
}

TEST_CASE("bounds of every run hold in orders chosen so that the target errs (T-71, T-76)") {
  for (const ChosenCase& c : {ChosenCase{"sphere_cut_sdf_relu", "fp32", BoundKind::adjoint_any_order, 0.218, 10.0},
                              ChosenCase{"torus_sdf_softplus", "fp32", BoundKind::adjoint_any_order, 0.252, 10.0},
                              ChosenCase{"oscillator_d4_w128", "fp32", BoundKind::adjoint_any_order, 0.316, 20.0},
                              ChosenCase{"oscillator_d4_w256", "tf32", BoundKind::rounded_shadow, 0.779, 1.2},
                              ChosenCase{"torus_sdf_softplus", "tf32", BoundKind::rounded_shadow, 0.874, 1.1}}) {
    INFO(std::string(c.network) << " in " << std::string(c.arithmetic));
    const std::string file = std::string("examples/models/") + c.network + ".onnx";
    const Graph graph = load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / file);
    const AnyRunCheck check(graph, inputs_of(graph, 8 * ::test_multiplier()));
    std::vector<double> usual, chosen;
    for (const char* order : declared_orders)
      keep_larger(usual, check.errors_of(declared_run(graph, check.inputs(), c.arithmetic, order), check.scalar()));
    const Trace declared = declared_run(graph, check.inputs(), c.arithmetic, "sequential");
    const std::vector<soundness::TargetBound> bounds = check.bounds_of(declared, {c.bound}).at(c.bound);
    BoundTally of_targets;
    soundness::Tally of_layers;
    for (const double direction : {1.0, -1.0}) {
      const soundness::ChosenError error{check.target(check.scalar()), direction, 3};
      const Trace run = soundness::run_in_chosen_orders(graph, check.inputs(), cpu_arithmetic(c.arithmetic, {}), error);
      check.hold(run, bounds, of_targets);
      soundness::check_trace(
          graph, run, [&] { return file; }, {}, of_layers);
      keep_larger(chosen, check.errors_of(run, check.scalar()));
    }
    CHECK(of_targets.violations == 0);
    CHECK(of_layers.failures.empty());
    CHECK(mean_ratio(chosen, usual) > c.times);
    CHECK_APPROACH("T-116", of_targets.max_utilisation, c.approach);
    MESSAGE(fmt::format("{} {}: {:.3f} of {}, {:.2f} times declared orders in the mean", c.network, c.arithmetic,
                        of_targets.max_utilisation, name_of(c.bound), mean_ratio(chosen, usual)));
  }
}

TEST_CASE("bounds of every run by a quarter of what sums may err are exceeded, in chosen orders alone") {
  checks::Theorems quartered;
  quartered.rows.any_order = [](const bounds::SumRow& row, const bounds::RowFormat& f, const bounds::RowErrors& result,
                                std::size_t n) {
    bounds::fastest_row_kernels().any_order(row, f, result, n);
    for (std::size_t i = 0; i < n; ++i) result.added[i] *= 0.25;
  };
  const Graph graph =
      load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models/oscillator_d4_w128.onnx");
  const AnyRunCheck check(graph, inputs_of(graph, 8));
  const checks::ScopedTheorems in_force(quartered);
  const std::vector<soundness::TargetBound> bounds =
      check.bounds_of(declared_run(graph, check.inputs(), "fp32", "sequential"), {BoundKind::adjoint_any_order})
          .at(BoundKind::adjoint_any_order);
  BoundTally in_declared, in_chosen;
  for (const char* order : declared_orders)
    check.hold(declared_run(graph, check.inputs(), "fp32", order), bounds, in_declared);
  for (const double direction : {1.0, -1.0}) {
    const soundness::ChosenError error{check.target(check.scalar()), direction, 0};
    check.hold(soundness::run_in_chosen_orders(graph, check.inputs(), cpu_arithmetic("fp32", {}), error), bounds,
               in_chosen);
  }
  CHECK(in_declared.violations == 0);
  CHECK(in_chosen.violations > 0);
}

}  // namespace driftbound
