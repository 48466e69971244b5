#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "bounds/rules.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "soundness/any_run_check.hpp"
#include "soundness/chosen_orders.hpp"
#include "soundness/chosen_sums.hpp"
#include "soundness/random.hpp"
#include "support/approach.hpp"
#include "support/tally.hpp"

namespace driftbound {
namespace {

using soundness::AnyRunCheck;
using soundness::BoundTally;

/// A network of examples/models, an arithmetic, a bound of every run, the share of it that chosen orders have been seen
/// to reach, and how many times the largest error of declared orders theirs is at least.
struct ChosenCase {
  const char* network;
  const char* arithmetic;
  const char* bound;
  double approach;
  double times;
};

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
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

TEST_CASE("sums in chosen orders err by many roundings, in the direction asked for") {
  soundness::Random random(20261126);
  for (int i = 0; i < 20 * ::test_multiplier(); ++i) {
    const std::vector<float> terms = random_terms(random, 256);
    double exact = 0.0, most = 0.0;
    for (const float term : terms) {
      exact += term;
      most += std::max(term, 0.0f);
    }
    const double above = soundness::sum_erring(terms, 1.0) - exact, below = soundness::sum_erring(terms, -1.0) - exact;
    CHECK(above > 30 * 0x1p-24 * most);
    CHECK(below < -30 * 0x1p-24 * most);
    CHECK(std::max(above, -below) <= 255 * 0x1p-24 * 1.5 * most);
  }
  CHECK(soundness::sum_erring({}, 1.0) == 0.0f);
  CHECK(soundness::sum_erring({0.0f, 3.0f, -0.0f}, -1.0) == 3.0f);
}

TEST_CASE("bounds of every run hold in orders chosen so that the target errs (T-71, T-76)") {
  for (const ChosenCase& c : {ChosenCase{"sphere_cut_sdf_relu", "fp32", "adjoint/any-order", 0.213, 10.0},
                              ChosenCase{"torus_sdf_softplus", "fp32", "adjoint/any-order", 0.237, 10.0},
                              ChosenCase{"oscillator_d4_w128", "fp32", "adjoint/any-order", 0.307, 20.0},
                              ChosenCase{"oscillator_d4_w256", "tf32", "rounded-shadow", 0.769, 1.04},
                              ChosenCase{"oscillator_d4_w128", "bf16", "rounded-shadow", 0.997, 0.99}}) {
    INFO(std::string(c.network) << " in " << std::string(c.arithmetic));
    const std::string file = std::string("examples/models/") + c.network + ".onnx";
    const Graph graph = load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / file);
    const AnyRunCheck check(graph, inputs_of(graph, 8 * ::test_multiplier()));
    const Trace declared = declared_run(graph, check.inputs(), c.arithmetic, "sequential");
    const std::vector<soundness::TargetBound> bounds = check.bounds_of(declared, {c.bound}).at(c.bound);
    double usual = 0.0, chosen = 0.0;
    for (const char* order : {"sequential", "pairwise", "blocked:8+fma"})
      usual = std::max(
          usual, largest(check.errors_of(declared_run(graph, check.inputs(), c.arithmetic, order), check.scalar())));
    BoundTally tally;
    for (const double direction : {1.0, -1.0}) {
      const soundness::ChosenError error{check.target(check.scalar()), direction, 3};
      const Trace run = soundness::run_in_chosen_orders(graph, check.inputs(), cpu_arithmetic(c.arithmetic, {}), error);
      check.hold(run, bounds, tally);
      chosen = std::max(chosen, largest(check.errors_of(run, check.scalar())));
    }
    CHECK(tally.violations == 0);
    CHECK(chosen > c.times * usual);
    CHECK_APPROACH("T-116", tally.max_utilisation, c.approach);
    MESSAGE(fmt::format("{} {}: {:.3f} of {}; error {:.3g}, {:.2f} times that of declared orders", c.network,
                        c.arithmetic, tally.max_utilisation, c.bound, chosen, chosen / usual));
  }
}

TEST_CASE("bounds of every run by a quarter of what sums may err are exceeded, in chosen orders alone") {
  bounds::Rules quartered = bounds::default_rules();
  quartered.rows.any_order = [](const bounds::SumRow& row, const bounds::RowFormat& f, const bounds::RowErrors& result,
                                std::size_t n) {
    bounds::fastest_row_kernels().any_order(row, f, result, n);
    for (std::size_t i = 0; i < n; ++i) result.added[i] *= 0.25;
  };
  const Graph graph =
      load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models/oscillator_d4_w128.onnx");
  const AnyRunCheck check(graph, inputs_of(graph, 8), &quartered);
  const Trace declared = declared_run(graph, check.inputs(), "fp32", "sequential");
  const std::vector<soundness::TargetBound> bounds =
      check.bounds_of(declared, {"adjoint/any-order"}).at("adjoint/any-order");
  BoundTally in_declared, in_chosen;
  check.hold(declared, bounds, in_declared);
  for (const double direction : {1.0, -1.0}) {
    const soundness::ChosenError error{check.target(check.scalar()), direction, 0};
    check.hold(soundness::run_in_chosen_orders(graph, check.inputs(), cpu_arithmetic("fp32", {}), error), bounds,
               in_chosen);
  }
  CHECK(in_declared.violations == 0);
  CHECK(in_chosen.violations > 0);
}

}  // namespace driftbound
