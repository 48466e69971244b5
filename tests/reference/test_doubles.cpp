#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "containment.hpp"

using namespace driftbound;
using networks::Maker;
using networks::Scale;

// The rung in float64: outputs alone, to a precision that doubles have.

namespace {

/// Layers of products, functions and sums, 40 numbers wide.
networks::Network network_of(std::uint64_t seed, const Op& activation, std::size_t samples) {
  constexpr std::int64_t width = 40;
  Maker make(seed, Scale::float32);
  networks::Network network;
  Graph& graph = network.graph;
  ValueId x = graph.add_input("x", ElementType::f64, {networks::extent(-1), networks::extent(3)});
  Tensor<double> inputs({static_cast<std::int64_t>(samples), 3});
  for (double& value : inputs.values) value = make.number();
  network.inputs.tensors.emplace_back("x", StoredTensor::from(inputs));
  const auto dense = [&](ValueId from, std::int64_t in, std::int64_t out) {
    Tensor<double> w({in, out}), b({out});
    for (double& value : w.values) value = make.number() / std::sqrt(static_cast<double>(in));
    for (double& value : b.values) value = make.number();
    const ValueId weights = graph.add_constant("", StoredTensor::from(w)),
                  bias = graph.add_constant("", StoredTensor::from(b));
    return graph.add_node("", op::Gemm{}, {from, weights, bias});
  };
  x = graph.add_node("", activation, {dense(x, 3, width)});
  for (int layer = 0; layer < 3; ++layer) {
    const ValueId inner = graph.add_node("", activation, {dense(x, width, width)});
    x = graph.add_node("", op::Add{}, {x, inner});
  }
  graph.outputs = {dense(x, width, 2)};
  return network;
}

PrecisionPolicy coarse() {
  PrecisionPolicy policy;
  policy.outputs_only = true;
  policy.relative_radius = 0x1p-30;
  policy.error_ratio = policy.of_rounding = 0x1p-10;
  return policy;
}

/// The outputs' exact values lie in their balls; every ball is as small as asked.
Reference check(const networks::Network& network, const PrecisionPolicy& policy) {
  const Graph& graph = network.graph;
  const Reference reference = certified_reference(graph, network.inputs, policy);
  oracle::Evaluation<oracle::Real400> exact;
  exact.set_constants(graph);
  exact.set(graph.inputs[0], oracle::matrix<oracle::Real400>(network.inputs.at("x").to_double()));
  for (const Node& node : graph.nodes) exact.set(node.output, exact.result(node));
  const std::size_t last = graph.nodes.size() - 1;
  containment::Counts counts;
  containment::check_layer(graph, last, reference.layers[last], exact.value(graph.outputs[0]), counts);
  CHECK(reference.undecided == 0);
  for (const Ball& ball : reference.layers[last].values)
    CHECK(ball.radius.value() <= policy.relative_radius * std::fabs(ball.hi));
  return reference;
}

bool is_same(const Ball& x, const Ball& y) {
  return x.hi == y.hi && x.lo == y.lo && x.radius == y.radius;
}

}  // namespace

TEST_CASE("outputs to nine digits are settled in double, and hold the values computed with 400 digits (T-82)" *
          doctest::test_suite("campaign")) {
  const auto times = static_cast<std::uint64_t>(networks::multiplier());
  std::int64_t in_double = 0, all = 0;
  for (const Op& activation : {Op(op::Relu{}), Op(op::Tanh{}), Op(op::Sin{}), Op(op::Softplus{})})
    for (std::uint64_t seed = 1; seed <= 5 * times; ++seed) {
      const Reference reference = check(network_of(seed, activation, 70), coarse());
      for (const auto& [bits, elements] : reference.rungs) {
        all += elements;
        in_double += bits == 53 ? elements : 0;
      }
    }
  MESSAGE("outputs held against 400 digits: ", all, ", in double ", in_double);
  CHECK(all == static_cast<std::int64_t>(4 * 5 * 140 * times));
  CHECK(in_double > 9 * all / 10);
  CHECK(in_double < all);
}

TEST_CASE("samples that doubles cannot settle climb alone") {
  networks::Network network;
  Graph& graph = network.graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {networks::extent(-1), networks::extent(1)});
  network.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<double>({3, 1}, {1.0, 0x1p-20, 0.25})));
  const ValueId tanh = graph.add_node("tanh", op::Tanh{}, {x});
  graph.outputs = {graph.add_node("x - tanh x", op::Sub{}, {x, tanh})};  // x^3 / 3 = 2^-61.6
  CHECK(check(network, coarse()).rungs == std::map<int, std::int64_t>{{53, 2}, {106, 1}});
}

TEST_CASE("what doubles say of a sample does not depend on those around it, nor on threads") {
  const networks::Network network = network_of(7, op::Tanh{}, 150);
  Tensor<double> inputs = network.inputs.at("x").to_double();
  const Reference all = certified_reference(network.graph, network.inputs, coarse());
  const BatchLayout layout = batch_layout(network.graph);
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {3, 5}, {61, 9}, {20, 64}}) {
    const Reference some =
        certified_reference(network.graph, slice(network.graph, layout, network.inputs, first, count), coarse());
    const std::vector<Ball>& balls = some.layers.back().values;
    for (std::size_t i = 0; i < balls.size(); ++i)
      CHECK(is_same(balls[i], all.layers.back().values[2 * static_cast<std::size_t>(first) + i]));
  }
  PrecisionPolicy parallel = coarse();
  parallel.threads = 3;
  const Reference by_three = certified_reference(network.graph, network.inputs, parallel);
  CHECK(by_three.rungs == all.rungs);
  for (std::size_t i = 0; i < 300; ++i) CHECK(is_same(by_three.layers.back().values[i], all.layers.back().values[i]));

  inputs.values[3 * 30] = std::numeric_limits<double>::quiet_NaN();
  inputs.values[3 * 31] = std::numeric_limits<double>::max();
  Inputs others;
  others.tensors.emplace_back("x", StoredTensor::from(inputs));
  const Reference with_others = certified_reference(network.graph, others, coarse());
  for (std::size_t i = 0; i < 300; ++i)
    if (i / 2 != 30 && i / 2 != 31) CHECK(is_same(with_others.layers.back().values[i], all.layers.back().values[i]));
  CHECK_FALSE(with_others.layers.back().values[60].is_finite());
  CHECK(with_others.undecided == 2);
}

TEST_CASE("a sample beyond what loops take of a function does not change what is said of the others") {
  const std::pair<Op, double> beyond[] = {
      {op::Sin{}, 2e6}, {op::Tanh{}, 400.0}, {op::Tanh{}, 1e-200}, {op::Sigmoid{}, -800.0}, {op::Softplus{}, 800.0}};
  for (const auto& [activation, far] : beyond) {
    networks::Network network;
    Graph& graph = network.graph;
    Maker make(3, Scale::float32);
    const ValueId x = graph.add_input("x", ElementType::f64, {networks::extent(-1), networks::extent(4)});
    Tensor<double> inputs({20, 4}), w({4, 2});
    for (double& value : inputs.values) value = make.number();
    for (double& value : w.values) value = make.number();
    const ValueId f = graph.add_node("f", activation, {x});
    graph.outputs = {graph.add_node("y", op::MatMul{}, {f, graph.add_constant("w", StoredTensor::from(w))})};
    const auto balls = [&] {
      network.inputs.tensors.assign(1, {"x", StoredTensor::from(inputs)});
      return certified_reference(graph, network.inputs, coarse()).layers.back().values;
    };
    const std::vector<Ball> before = balls();
    inputs.values[19 * 4] = far;
    const std::vector<Ball> after = balls();
    for (std::size_t i = 0; i < 38; ++i) CHECK(is_same(before[i], after[i]));
  }
}

TEST_CASE("doubles are asked where the question is one for them, and nowhere else") {
  const networks::Network network = network_of(9, op::Relu{}, 20);
  const auto uses_doubles = [&](const PrecisionPolicy& policy, const Trace* trace = nullptr) {
    return certified_reference(network.graph, network.inputs, policy, trace).rungs.contains(53);
  };
  CHECK(uses_doubles(coarse()));
  PrecisionPolicy policy = coarse();
  policy.outputs_only = false;
  CHECK_FALSE(uses_doubles(policy));
  policy = coarse();
  policy.relative_radius = 0x1p-50;
  CHECK_FALSE(uses_doubles(policy));
  policy = coarse();
  policy.max_bits = 106;
  CHECK_FALSE(uses_doubles(policy));
  policy = coarse();
  policy.initial_bits = 128;
  CHECK_FALSE(uses_doubles(policy));

  const Reference exact = certified_reference(network.graph, network.inputs);
  Trace trace = containment::make_trace(network, exact, 1, true);
  CHECK_FALSE(uses_doubles(coarse(), &trace));  // recorded as doubles
  for (LayerTrace& layer : trace.layers) {
    const Tensor<double> values = layer.output.to_double();
    layer.output = StoredTensor::from(Tensor<float>(values.shape, {values.values.begin(), values.values.end()}));
  }
  CHECK(uses_doubles(coarse(), &trace));
  policy = coarse();
  policy.of_rounding = 0x1p-30;
  CHECK_FALSE(uses_doubles(policy, &trace));
}
