#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "containment.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "networks.hpp"
#include "oracle.hpp"
#include "reference/near_recorded.hpp"

// Products of rows that are near what a run recorded (T-89).

using namespace driftbound;

namespace {

constexpr std::int64_t width = 96, samples = 5;

/// Products, sums and functions at kinks, wide enough for products by residues.
networks::Network deep_network(std::uint64_t seed, networks::Scale scale) {
  networks::Maker make(seed, scale);
  networks::Network network;
  Graph& graph = network.graph;
  const auto constant = [&](const std::string& name, Shape shape, double size) {
    Tensor<float> values(std::move(shape));
    for (float& x : values.values) x = static_cast<float>(size * make.number());
    return graph.add_constant(name, StoredTensor::from(values));
  };
  ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {width, ""}});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = std::to_string(layer);
    const ValueId w = constant("w" + name, {width, width}, 0.1);
    const ValueId product = layer % 2 == 0 ? graph.add_node("gemm" + name, op::Gemm{1.0, 0.75, false, true},
                                                            {x, w, constant("b" + name, {width}, 0.5)})
                                           : graph.add_node("matmul" + name, op::MatMul{}, {x, w});
    const ValueId bent = graph.add_node("relu" + name, op::Relu{}, {product});
    x = layer == 0 ? bent : graph.add_node("add" + name, op::Add{}, {x, bent});
  }
  graph.outputs = {x};
  Tensor<float> inputs({samples, width});
  for (float& value : inputs.values) value = static_cast<float>(make.number());
  network.inputs.tensors.emplace_back("x", StoredTensor::from(inputs));
  return network;
}

Trace run_of(const networks::Network& network) {
  return cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")))
      .run(network.graph, network.inputs);
}

/// Every layer's exact value, by the oracle, lies in its ball.
void check_contains(const networks::Network& network, const Reference& reference) {
  containment::Counts counts;
  oracle::Evaluation<oracle::Real400> exact;
  exact.set_constants(network.graph);
  exact.set(0, oracle::matrix<oracle::Real400>(network.inputs.at("x").to_double()));
  for (std::size_t i = 0; i < network.graph.nodes.size(); ++i) {
    const Node& node = network.graph.nodes[i];
    exact.set(node.output, exact.result(node));
    containment::check_layer(network.graph, i, reference.layers[i], exact.value(node.output), counts);
  }
  CHECK(counts.claims_nothing == 0);
}

/// What a maker says with and without a local reference.
struct Ways {
  Reference local, alone, near;

  Ways(const networks::Network& network, const Trace& trace) {
    const ReferenceMaker maker(network.graph);
    local = maker.local(trace);
    alone = maker.accumulated(network.inputs, {}, &trace);
    near = maker.accumulated(network.inputs, {}, &trace, &local);
  }

  void check(const networks::Network& network) const { check_contains(network, near); }

  /// Rows of a layer of which both ways have the very same balls.
  int same_rows(std::size_t layer) const {
    int same = 0;
    for (std::size_t row = 0; row < samples; ++row) {
      bool all = true;
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
        const Ball &a = alone.layers[layer].values[i], &b = near.layers[layer].values[i];
        all = all && a.hi == b.hi && a.lo == b.lo && a.radius.value() == b.radius.value();
      }
      same += all ? 1 : 0;
    }
    return same;
  }
};

bool has_residues() {
  return linalg::fastest_residue_kernels() != nullptr;
}

Trace with_layer(Trace trace, std::size_t layer, const std::vector<double>& values) {
  const Shape shape = trace.layers[layer].output.shape();
  std::vector<float> floats(values.begin(), values.end());
  trace.layers[layer].output = StoredTensor::from(Tensor<float>(shape, std::move(floats)));
  return trace;
}

}  // namespace

TEST_CASE("references next to a recorded run hold the exact values, far below its errors (T-89)") {
  for (std::uint64_t seed = 0; seed < 3 * static_cast<std::uint64_t>(networks::multiplier()); ++seed) {
    for (const networks::Scale scale : {networks::Scale::ordinary, networks::Scale::integers}) {
      const networks::Network network = deep_network(seed, scale);
      const Trace trace = run_of(network);
      const Ways ways(network, trace);
      ways.check(network);
      CHECK(ways.near.rungs == ways.alone.rungs);
      const std::vector<double> run = trace.layers.back().output.to_double().values;
      double radius = 0.0, error = 0.0;
      for (std::size_t i = 0; i < run.size(); ++i) {
        radius = std::max(radius, ways.near.layers.back().values[i].radius.value());
        error = std::max(error, approx_error_of(run[i], ways.near.layers.back().values[i]));
      }
      CHECK(radius < 0x1p-40 * error);
      if (scale == networks::Scale::ordinary && has_residues()) CHECK(ways.same_rows(2) < samples);
    }
  }
}

TEST_CASE("rows that are far from the recorded ones, and what has no exact value there, go without (T-89)") {
  const networks::Network network = deep_network(7, networks::Scale::ordinary);
  const Trace trace = run_of(network);
  const std::size_t relu = 1, matmul = 2;
  const std::vector<double> recorded = trace.layers[relu].output.to_double().values;
  for (const double factor : {1.0, 1.0 + 0x1p-20, 1.5, -1.0, 0.0, 1e30}) {
    CAPTURE(factor);
    std::vector<double> values = recorded;
    for (std::size_t i = 2 * width; i < 3 * width; ++i) values[i] *= factor;
    const Ways ways(network, with_layer(trace, relu, values));
    ways.check(network);
    const bool is_near = std::abs(factor - 1.0) < 1e-3;
    CHECK(ways.same_rows(matmul) == (has_residues() ? (is_near ? 0 : 1) : samples));
  }
  std::vector<double> infinite = recorded;
  infinite[2 * width] = std::numeric_limits<double>::infinity();
  const Ways ways(network, with_layer(trace, relu, infinite));
  ways.check(network);
  CHECK(ways.same_rows(matmul) == (has_residues() ? 1 : samples));
}

TEST_CASE("local references of another trace, or of none, are refused") {
  const networks::Network network = deep_network(8, networks::Scale::ordinary);
  const Trace trace = run_of(network);
  const ReferenceMaker maker(network.graph);
  const Reference local = maker.local(trace);
  Reference shorter = local;
  shorter.layers.pop_back();
  CHECK_THROWS_AS(maker.accumulated(network.inputs, {}, &trace, &shorter), ShapeMismatch);
  CHECK_THROWS_AS(maker.accumulated(network.inputs, {}, nullptr, &local), ShapeMismatch);
}

TEST_CASE("only rows times a matrix that stays are taken next to recorded ones") {
  networks::Maker make(9, networks::Scale::float32);
  const Tensor<double> x = make.tensor({samples, width}), w = make.tensor({width, width}),
                       square = make.tensor({width, width});
  Tensor<Ball> result({samples, width});
  const std::vector<std::size_t> rows = {0, 1, 2, 3, 4};
  const PairTensor operand(x, rows), matrix(w), other(square);
  KeptMatrices kept;
  const auto is_taken = [&](const Op& op, std::vector<PairInput> inputs) {
    return product_near_recorded(op, inputs, {&x, &result}, rows, {samples, width}).has_value();
  };
  CHECK(is_taken(op::MatMul{}, {{&operand}, {&matrix, &kept}}) == has_residues());
  CHECK_FALSE(is_taken(op::MatMul{}, {{&operand}, {&other}}));
  CHECK_FALSE(is_taken(op::Gemm{2.0, 1.0, false, false}, {{&operand}, {&matrix, &kept}}));
  CHECK_FALSE(is_taken(op::Gemm{1.0, 1.0, true, false}, {{&operand}, {&matrix, &kept}}));
  CHECK_FALSE(is_taken(op::Gemm{}, {{&operand}, {&matrix, &kept}, {&operand}}));
  CHECK_FALSE(is_taken(op::Add{}, {{&operand}, {&matrix, &kept}}));
}

TEST_CASE("norms that somebody knows better make radii smaller, and references hold all the same (T-89)") {
  const networks::Network network = deep_network(10, networks::Scale::ordinary);
  const Trace trace = run_of(network);
  const Bounder bounder(network.graph);
  int asked = 0;
  const ReferenceMaker by_norms(network.graph, [&](ValueId id) {
    ++asked;
    return bounder.spectral_norm(id);
  });
  const Reference local = by_norms.local(trace), reference = by_norms.accumulated(network.inputs, {}, &trace, &local);
  CHECK(asked > 0);
  check_contains(network, reference);
  const Reference alone = ReferenceMaker(network.graph).accumulated(network.inputs, {}, &trace, &local);
  double radius = 0.0, radius_alone = 0.0;
  for (std::size_t i = 0; i < reference.layers.back().size(); ++i) {
    radius = std::max(radius, reference.layers.back().values[i].radius.value());
    radius_alone = std::max(radius_alone, alone.layers.back().values[i].radius.value());
  }
  CHECK(radius <= radius_alone);
  CHECK_THROWS_AS(static_cast<void>(bounder.spectral_norm(0)), InvalidArgument);
  CHECK_THROWS_AS(static_cast<void>(bounder.spectral_norm(1000)), InvalidArgument);
}
