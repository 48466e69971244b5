#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bounds/adjoint/block_bounds.hpp"
#include "support/approach.hpp"
#include "support/run_checks.hpp"

// Any run by loops over rows (T-88).

using namespace checks;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// One block of a network, with and without the loops over rows.
struct TwoWays {
  bounds::Certificate by_rows, in_full;

  TwoWays(const Graph& graph, const Tensor<double>& x, double radius, std::int64_t refined_radii = 32) {
    const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
    const bounds::Setting setting = setting_of(bounds::default_rules(), arithmetic);
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
    const auto certificate = [&](bool with_this_run) {
      bounds::AdjointQuestion question;
      question.this_run = with_this_run;
      question.declared_order = question.rounded = false;
      question.refined_radii = refined_radii;
      return bounds::block_bounds(network, block, targets, question, setting, weights).targets[0].any_order;
    };
    by_rows = certificate(false);
    in_full = certificate(true);
  }
};

double sum_of(const std::vector<std::vector<double>>& layers, std::size_t row) {
  double sum = 0.0;
  for (const std::vector<double>& layer : layers) sum += layer[row];
  return sum;
}

}  // namespace

TEST_CASE("bounds by loops over rows hold at coarse distances and for runs in float32 (T-88)") {
  for (const std::string function : {"relu", "tanh", "softplus", "sin"}) {
    CAPTURE(function);
    const RunRowsTallies tallies = check_run_rows(bounds::default_rules(), function, 12 * test_multiplier(), 71);
    INFO(tallies.moved.first_violation, tallies.rounded.first_violation);
    CHECK(tallies.moved.checked > 0);
    CHECK(tallies.moved.violations == 0);
    CHECK(tallies.rounded.violations == 0);
    CHECK_APPROACH("T-88", tallies.moved.utilisation, 0.99);
    CHECK_APPROACH("T-88", tallies.rounded.utilisation, 0.09);
    MESSAGE(function << ": " << tallies.moved.utilisation << " " << tallies.rounded.utilisation);
  }
}

TEST_CASE("loops over rows say what the whole says, to a hundredth (T-88)") {
  Generator generator(72);
  for (const std::string function : {"relu", "tanh", "softplus", "sin"}) {
    CAPTURE(function);
    for (int repetition = 0; repetition < 8 * test_multiplier(); ++repetition) {
      const Graph graph = network_of_rows(function, generator);
      for (const double radius : {0.0, 1e-6, 1e-3}) {
        CAPTURE(radius);
        const TwoWays ways(graph, network_inputs(1.0, false, generator), radius);
        for (std::size_t row = 0; row < ways.in_full.total.size(); ++row) {
          CHECK(ways.by_rows.total[row] == doctest::Approx(ways.in_full.total[row]).epsilon(0.01));
          CHECK(ways.by_rows.local[row] == doctest::Approx(ways.in_full.local[row]).epsilon(0.01));
          CHECK(sum_of(ways.by_rows.layers, row) == doctest::Approx(sum_of(ways.in_full.layers, row)).epsilon(0.01));
        }
      }
    }
  }
}

TEST_CASE("rows with large remainders are refined, as many radii as may be, and the bound only falls (T-72)") {
  Generator generator(75);
  int smaller = 0;
  for (int repetition = 0; repetition < 10 * test_multiplier(); ++repetition) {
    const Graph graph = network_of_rows("relu", generator);
    const Tensor<double> x = network_inputs(1.0, false, generator);
    const bounds::Certificate none = TwoWays(graph, x, 0.1, 0).by_rows, few = TwoWays(graph, x, 0.1, 2).by_rows,
                              all = TwoWays(graph, x, 0.1, 1000).by_rows;
    for (std::size_t row = 0; row < none.total.size(); ++row) {
      CHECK(few.total[row] <= none.total[row]);
      CHECK(all.total[row] <= few.total[row] * (1.0 + 1e-12));
      smaller += few.total[row] < none.total[row] && all.total[row] < few.total[row] ? 1 : 0;
    }
  }
  CHECK(smaller > 0);
}

TEST_CASE("rows of which nothing is known are left to the whole (T-88)") {
  Generator generator(73);
  const Graph graph = network_of_rows("relu", generator);
  for (const double bad : {infinity, std::nan(""), 1e39}) {
    Tensor<double> x = network_inputs(1.0, false, generator);
    x.values[5] = bad;
    CHECK(HeldRun(bounds::default_rules(), graph, x, 0.0).found().open == std::vector<std::int64_t>{1});
  }
  const Tensor<double> x = network_inputs(1.0, false, generator);
  CHECK(HeldRun(bounds::default_rules(), graph, x, 0.0).found().open.empty());
}

TEST_CASE("an op without loops over rows, and constants that float32 does not hold, are left to the whole (T-88)") {
  Generator generator(74);
  NetworkBuilder builder(generator, true);
  for (const std::string name : {"gemm", "exp"}) builder.add(name);
  CHECK_FALSE(HeldRun(bounds::default_rules(), builder.finish(), network_inputs(1.0, true, generator), 0.0).is_known());
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
  const ValueId third = graph.add_constant("c", StoredTensor::from(Tensor<double>({1}, {1.0 / 3.0})));
  graph.outputs = {graph.add_node("y", op::Mul{}, {x, third})};
  CHECK_FALSE(HeldRun(bounds::default_rules(), graph, network_inputs(1.0, true, generator), 0.0).is_known());
}

TEST_CASE("what is kept from trace to trace is that of the trace's own arithmetic (T-88)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 1}, {0.5F, 0.75F})));
  graph.outputs = {graph.add_node("tanh", op::Tanh{}, {graph.add_node("product", op::MatMul{}, {x, w})})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({3, 2}, {0.5F, 0.25F, 0.75F, 0.5F, 0.25F, 1.0F})));
  BoundOptions options;
  options.names = {"adjoint/any-order"};
  const Bounder kept(graph, options);
  for (const char* name : {"fp32", "fp32 by others", "bf16", "tf32", "fp64", "fp32"}) {
    CAPTURE(name);
    const bool is_foreign = std::string(name) == "fp32 by others";
    Trace trace =
        cpu_evaluator(cpu_arithmetic(is_foreign ? "fp32" : name, parse_summation_order("pairwise"))).run(graph, inputs);
    if (is_foreign) {
      trace.provenance = foreign_provenance;
      for (FunctionAccuracy& function : trace.arithmetic.functions) function.units = 1000.0;
    }
    const LayerBounds first = bound(graph, trace, options).layers.back(), again = kept(trace).layers.back();
    const BoundResult &alone = *find_bound(first.accumulated, "adjoint/any-order"),
                      &among_others = *find_bound(again.accumulated, "adjoint/any-order");
    CHECK(among_others.values.values == alone.values.values);
    CHECK(among_others.condition == alone.condition);
    CHECK(among_others.guarantee == alone.guarantee);
  }
}
