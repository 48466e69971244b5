#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "containment.hpp"
#include "driftbound/num/errors.hpp"
#include "support/transformers.hpp"

using namespace driftbound;
using containment::Counts;
using networks::Scale;

namespace {

std::int64_t decided(const Reference& reference) {
  std::int64_t count = 0;
  for (const auto& [bits, elements] : reference.rungs) count += elements;
  return count;
}

std::int64_t elements(const Reference& reference) {
  std::int64_t count = 0;
  for (const Tensor<Ball>& layer : reference.layers) count += static_cast<std::int64_t>(layer.size());
  return count;
}

// Elements whose radius the policy allows, counted from the outside.
std::int64_t precise(const Reference& reference, const Trace* trace, const PrecisionPolicy& policy) {
  std::int64_t count = 0;
  for (std::size_t l = 0; l < reference.layers.size(); ++l) {
    const std::vector<Ball>& balls = reference.layers[l].values;
    for (std::size_t i = 0; i < balls.size(); ++i) {
      const Ball& ball = balls[i];
      if (!std::isfinite(ball.hi) || !std::isfinite(ball.radius.value())) continue;
      const StoredTensor* const output = trace == nullptr ? nullptr : &trace->layers[l].output;
      const double computed = output == nullptr ? 0.0 : output->to_double().values[i];
      const double error = output == nullptr ? 0.0 : std::fabs((computed - ball.hi) - ball.lo);
      const double rounding = output == nullptr                    ? 0.0
                              : output->type() == ElementType::f32 ? 0x1p-24 * std::fabs(computed) + 0x1p-150
                                                                   : 0x1p-53 * std::fabs(computed);
      const double allowed =
          error > ball.radius.value() ? policy.error_ratio * error : policy.relative_radius * std::fabs(ball.hi);
      count += ball.radius.value() <= std::max(allowed, policy.of_rounding * rounding);
    }
  }
  return count;
}

/// The largest radius of the last layer over its largest error.
double radius_over_error(const Reference& reference, const Trace& trace) {
  const std::vector<Ball>& balls = reference.layers.back().values;
  const Tensor<double> computed = trace.layers.back().output.to_double();
  double radius = 0.0, error = 0.0;
  for (std::size_t i = 0; i < balls.size(); ++i) {
    radius = std::max(radius, balls[i].radius.value());
    error = std::max(error, std::fabs(computed.values[i] - balls[i].hi));
  }
  return radius / error;
}

bool same_bits(const Reference& a, const Reference& b) {
  if (a.rungs != b.rungs || a.undecided != b.undecided || a.max_bits_used != b.max_bits_used) return false;
  for (std::size_t l = 0; l < a.layers.size(); ++l)
    for (std::size_t i = 0; i < a.layers[l].size(); ++i) {
      const Ball& x = a.layers[l].values[i];
      const Ball& y = b.layers[l].values[i];
      const bool same_midpoint = (x.hi == y.hi && x.lo == y.lo) || (std::isnan(x.hi) && std::isnan(y.hi));
      if (!same_midpoint || x.radius.value() != y.radius.value()) return false;
    }
  return true;
}

networks::Network one_input(ElementType type, const Tensor<double>& x) {
  networks::Network network;
  network.graph.add_input("x", type, {networks::extent(-1), networks::extent(x.shape.at(1))});
  network.inputs.tensors.emplace_back("x", StoredTensor::from(x));
  return network;
}

}  // namespace

TEST_CASE("a product without columns has no values, and what follows has its own") {
  for (const Tensor<double>& x : {Tensor<double>({1, 2}, {0.5, -0.25}), Tensor<double>({3, 2}, {1, 2, 3, 4, 5, 6})}) {
    networks::Network network = one_input(ElementType::f32, x);
    Graph& graph = network.graph;
    const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 0})));
    const ValueId none = graph.add_node("none", op::MatMul{}, {graph.inputs[0], w});
    graph.outputs = {graph.add_node("y", op::Concat{1}, {none, graph.inputs[0]})};
    const Reference reference = certified_reference(graph, network.inputs);
    CHECK(reference.layers[0].size() == 0);
    REQUIRE(reference.layers[1].size() == x.size());
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(reference.layers[1].values[i].hi == x.values[i]);
  }
}

TEST_CASE("every element counts once: by the precision at which its radius met the policy, or as undecided") {
  PrecisionPolicy policy;
  policy.max_bits = 512;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const networks::Network network = networks::Builder(seed, Scale::ordinary, 20, true).general(10);
    const Reference plain = certified_reference(network.graph, network.inputs, policy);
    CHECK(decided(plain) + plain.undecided == elements(plain));
    CHECK(decided(plain) == precise(plain, nullptr, policy));

    const Trace trace = containment::make_trace(network, plain, seed, seed % 2 == 0);
    const Reference measured = certified_reference(network.graph, network.inputs, policy, &trace);
    CHECK(decided(measured) == precise(measured, &trace, policy));
    const Reference local = local_reference(network.graph, trace, policy);
    CHECK(decided(local) + local.undecided == elements(local));
    CHECK(decided(local) == precise(local, &trace, policy));
  }
}

TEST_CASE("smooth networks without cancellation leave nothing undecided") {
  PrecisionPolicy policy;
  for (const Op& activation : std::vector<Op>{op::Tanh{}, op::Sigmoid{}, op::Softplus{}, op::Sin{}, op::Relu{}}) {
    networks::Maker make(3, Scale::float32);
    networks::Network network = one_input(ElementType::f32, make.tensor({40, 3}));
    ValueId x = 0;
    for (std::int64_t layer = 0, in = 3; layer < 4; ++layer, in = 16) {
      const std::string name = std::to_string(layer);
      const ValueId w = network.graph.add_constant("w" + name, StoredTensor::from(make.tensor({in, 16})));
      x = network.graph.add_node("dense" + name, op::MatMul{}, {x, w});
      x = network.graph.add_node("activation" + name, activation, {x});
    }
    network.graph.outputs = {x};
    const Reference reference = certified_reference(network.graph, network.inputs, policy);
    const Trace trace = containment::make_trace(network, reference, 4, true);
    CHECK(certified_reference(network.graph, network.inputs, policy, &trace).undecided == 0);
    CHECK(local_reference(network.graph, trace, policy).undecided == 0);
  }
}

TEST_CASE("a cancellation that hides the value lifts the precision of its own sample only") {
  networks::Network network = one_input(ElementType::f64, Tensor<double>({3, 1}, {1.0, 0x1p-70, 0.25}));
  Graph& graph = network.graph;
  const ValueId tanh = graph.add_node("tanh", op::Tanh{}, {0});
  const ValueId rest = graph.add_node("x - tanh x", op::Sub{}, {0, tanh});
  const ValueId one = graph.add_constant("1", StoredTensor::from(Tensor<double>({1}, {1.0})));
  const ValueId lifted = graph.add_node("1 + (x - tanh x)", op::Add{}, {rest, one});
  graph.outputs = {graph.add_node("back", op::Sub{}, {lifted, one})};  // x^3 / 3 = 2^-211.6, below 1
  PrecisionPolicy policy;
  const Reference reference = certified_reference(graph, network.inputs, policy);
  CHECK(reference.undecided == 0);
  CHECK(reference.rungs == std::map<int, std::int64_t>{{106, 10}, {256, 1}, {512, 1}});
  CHECK(reference.max_bits_used == 512);
}

TEST_CASE("double-double comes first where nothing else is asked for, and only there") {
  const networks::Network network = networks::Builder(3, Scale::float32, 10, true).polynomial(6);
  const Reference plain = certified_reference(network.graph, network.inputs);
  const Trace trace = containment::make_trace(network, plain, 3, true);
  const auto bits_used = [&](PrecisionPolicy policy) {
    std::set<int> bits;
    for (const Reference& reference : {certified_reference(network.graph, network.inputs, policy, &trace),
                                       local_reference(network.graph, trace, policy)})
      for (const auto& [rung, count] : reference.rungs) bits.insert(rung);
    return bits;
  };
  PrecisionPolicy policy;
  CHECK(plain.rungs.at(106) > 9 * elements(plain) / 10);
  CHECK(bits_used(policy).contains(106));
  policy.initial_bits = 128;
  CHECK_FALSE(bits_used(policy).contains(106));
  policy = {};
  policy.max_bits = 105;
  CHECK(bits_used(policy) == std::set<int>{105});
}

TEST_CASE("errors far below a rounding, and values far below the smallest numbers, ask for no more digits") {
  const networks::Network network = one_input(ElementType::f32, Tensor<double>({1, 4}, {30.0, -36.5, -20.0, 0.7}));
  const std::vector<std::pair<Op, std::vector<double>>> computed = {{op::Tanh{}, {1.0, -1.0, -1.0, 0.6}},
                                                                    {op::Gelu{}, {30.0, -0.0, -0.0, 0.5}},
                                                                    {op::Gelu{true}, {30.0, -0.0, 0.0, 0.5}}};
  for (const auto& [op, values] : computed) {
    Graph graph = network.graph;
    graph.outputs = {graph.add_node("y", op, {0})};
    Tensor<float> recorded({1, 4});
    for (std::size_t i = 0; i < 4; ++i) recorded.values[i] = static_cast<float>(values[i]);
    const Reference plain = certified_reference(graph, network.inputs);
    Trace trace = containment::make_trace({graph, network.inputs}, plain, 1, true);
    trace.layers[0].output = StoredTensor::from(recorded);
    PrecisionPolicy policy;
    for (const Reference& reference :
         {certified_reference(graph, network.inputs, policy, &trace), local_reference(graph, trace, policy)})
      CHECK(reference.rungs == std::map<int, std::int64_t>{{106, 4}});
    policy.of_rounding = 0.0;
    CHECK(certified_reference(graph, network.inputs, policy, &trace).max_bits_used > 106);
    CHECK(local_reference(graph, trace, policy).max_bits_used > 106);
  }
}

TEST_CASE("a deep wide network and a transformer of 12 blocks end far below float32's error") {
  networks::Maker make(9, Scale::float32);
  networks::Network network = one_input(ElementType::f32, make.tensor({3, 8}));
  ValueId x = 0;
  for (std::int64_t layer = 0, in = 8; layer < 10; ++layer, in = 128) {
    Tensor<double> w = make.tensor({in, 128});
    for (double& value : w.values)
      value = static_cast<double>(static_cast<float>(value / std::sqrt(static_cast<double>(in))));
    const ValueId c = network.graph.add_constant("w" + std::to_string(layer), StoredTensor::from(w));
    const ValueId dense = network.graph.add_node("dense" + std::to_string(layer), op::MatMul{}, {x, c});
    x = network.graph.add_node("relu" + std::to_string(layer), op::Relu{}, {dense});
  }
  network.graph.outputs = {x};
  const Reference reference = certified_reference(network.graph, network.inputs);
  const Trace trace = containment::make_trace(network, reference, 4, true);
  const Reference measured = certified_reference(network.graph, network.inputs, {}, &trace);
  CHECK(measured.rungs.at(106) == elements(measured));
  CHECK(radius_over_error(measured, trace) < 0x1p-40);
  Counts counts;
  containment::check_accumulated<oracle::Real400>(network, {}, counts, &trace);
  containment::check_local<oracle::Real400>(network, trace, {}, counts);

  checks::Generator generator(5);
  checks::TransformerBuilder builder({12, 4, 16, 2, false}, generator);
  const Graph transformer = builder.build();
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(builder.inputs()));
  const Reference exact = certified_reference(transformer, inputs);
  const Trace run = containment::make_trace({transformer, inputs}, exact, 5, true);
  const Reference of_transformer = certified_reference(transformer, inputs, {}, &run);
  CHECK(of_transformer.undecided == 0);
  CHECK(radius_over_error(of_transformer, run) < 0x1p-40);
}

TEST_CASE("references of a maker are those made alone, from whatever thread, block after block") {
  const networks::Network network = networks::Builder(5, Scale::ordinary, 40, true).general(8);
  const BatchLayout layout = batch_layout(network.graph);
  const ReferenceMaker maker(network.graph);
  for (std::int64_t first = 0; first < 40; first += 20) {
    const Inputs block = slice(network.graph, layout, network.inputs, first, 20);
    const Reference alone = certified_reference(network.graph, block);
    std::vector<Reference> made(3);
    std::vector<std::thread> threads;
    for (Reference& reference : made) threads.emplace_back([&] { reference = maker.accumulated(block); });
    for (std::thread& thread : threads) thread.join();
    for (const Reference& reference : made) CHECK(same_bits(alone, reference));
  }
}

TEST_CASE("a zero that only transcendental values cancel to stays undecided, with a small radius") {
  networks::Network network = one_input(ElementType::f64, Tensor<double>({2, 1}, {0.5, -1.25}));
  Graph& graph = network.graph;
  const ValueId a = graph.add_node("a", op::Tanh{}, {0});
  const ValueId b = graph.add_node("b", op::Tanh{}, {0});
  graph.outputs = {graph.add_node("a - b", op::Sub{}, {a, b})};
  PrecisionPolicy policy;
  policy.max_bits = 300;
  const Reference reference = certified_reference(graph, network.inputs, policy);
  CHECK(reference.undecided == 2);
  CHECK(reference.max_bits_used == 300);
  for (const Ball& ball : reference.layers[2].values) {
    CHECK(ball.contains(0.0));
    CHECK(ball.radius.value() > 0.0);
    CHECK(ball.radius.value() < 0x1p-295);
  }
  CHECK(decided(reference) == 4);
}

TEST_CASE("one thread, two or five: the same bits") {
  PrecisionPolicy policy;
  policy.max_bits = 512;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const networks::Network network = networks::Builder(seed, Scale::ordinary, 150, true).general(8);
    const Reference one = certified_reference(network.graph, network.inputs, policy);
    const Trace trace = containment::make_trace(network, one, seed, true);
    const Reference local = local_reference(network.graph, trace, policy);
    for (const int threads : {2, 5}) {
      PrecisionPolicy parallel = policy;
      parallel.threads = threads;
      CHECK(same_bits(one, certified_reference(network.graph, network.inputs, parallel)));
      CHECK(same_bits(local, local_reference(network.graph, trace, parallel)));
    }
  }
}

TEST_CASE("a sample's balls do not depend on the samples around it") {
  PrecisionPolicy policy;
  const networks::Network network = networks::Builder(2, Scale::ordinary, 100, true).general(8);
  const BatchLayout layout = batch_layout(network.graph);
  const Reference all = certified_reference(network.graph, network.inputs, policy);
  const Reference some =
      certified_reference(network.graph, slice(network.graph, layout, network.inputs, 40, 7), policy);
  for (std::size_t l = 0; l < all.layers.size(); ++l) {
    const std::size_t width = all.layers[l].size() / 100;
    for (std::size_t i = 0; i < some.layers[l].size(); ++i) {
      const Ball& a = all.layers[l].values[40 * width + i];
      const Ball& b = some.layers[l].values[i];
      CHECK(((a.hi == b.hi && a.lo == b.lo && a.radius == b.radius) || (std::isnan(a.hi) && std::isnan(b.hi))));
    }
  }
}

TEST_CASE("NaN and infinity in data void what depends on them, are not climbed for, and harm nothing else") {
  networks::Network network =
      one_input(ElementType::f64, Tensor<double>({4, 2}, {1.0, 2.0, std::nan(""), 1.0, INFINITY, 0.0, 3.0, 4.0}));
  Graph& graph = network.graph;
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<double>({2, 3}, {1, 2, 0, 3, 4, 0})));
  ValueId x = graph.add_node("dense", op::MatMul{}, {0, w});
  x = graph.add_node("relu", op::Relu{}, {x});
  x = graph.add_node("softmax", op::Softmax{}, {x});
  const ValueId bad = graph.add_constant("bad", StoredTensor::from(Tensor<double>({3}, {1.0, -INFINITY, 1.0})));
  graph.outputs = {graph.add_node("add", op::Add{}, {x, bad})};
  const Reference reference = certified_reference(graph, network.inputs);
  for (std::size_t layer = 0; layer < 4; ++layer)
    for (std::size_t i = 0; i < 12; ++i) {
      const bool voided = i / 3 == 1 || i / 3 == 2 || (layer == 3 && i % 3 == 1);
      CHECK(reference.layers[layer].values[i].is_finite() != voided);
    }
  CHECK(reference.max_bits_used == 160);
  CHECK(reference.undecided == 3 * 6 + 8);
}

TEST_CASE("inputs are taken as given: double data of a float32 model is not rounded first") {
  networks::Network network = one_input(ElementType::f32, Tensor<double>({1, 1}, {0.1}));
  network.graph.outputs = {network.graph.add_node("same", op::Identity{}, {0})};
  const Reference reference = certified_reference(network.graph, network.inputs);
  CHECK(reference.layers[0].values[0].hi == 0.1);
  CHECK(reference.layers[0].values[0].radius.value() == 0.0);
}

TEST_CASE("nodes of constants only are evaluated once and have no sample axis") {
  networks::Network network = one_input(ElementType::f64, Tensor<double>({30, 2}));
  Graph& graph = network.graph;
  const ValueId c = graph.add_constant("c", StoredTensor::from(Tensor<double>({2}, {0.5, 2.0})));
  const ValueId folded = graph.add_node("exp c", op::Exp{}, {c});
  graph.outputs = {graph.add_node("sum", op::Add{}, {0, folded})};
  Counts counts;
  const Reference reference = containment::check_accumulated<oracle::Real400>(network, {}, counts);
  CHECK(reference.layers[0].shape == Shape{2});
  CHECK(decided(reference) == 62);
  const Trace trace = containment::make_trace(network, reference, 1, false);
  containment::check_local<oracle::Real400>(network, trace, {}, counts);
}

TEST_CASE("values that hi + lo cannot hold are undecided without a climb to the limit") {
  networks::Network network = one_input(ElementType::f64, Tensor<double>({1, 2}, {-800.0, 800.0}));
  network.graph.outputs = {network.graph.add_node("exp", op::Exp{}, {0})};
  const Reference reference = certified_reference(network.graph, network.inputs);
  CHECK(reference.undecided == 2);
  CHECK(reference.max_bits_used == 160);
  CHECK(reference.layers[0].values[0].radius.value() == 0x1p-1074);
  CHECK_FALSE(reference.layers[0].values[1].is_finite());
}

TEST_CASE("policies and traces that make no sense are refused") {
  const networks::Network network = networks::Builder(1, Scale::ordinary, 3, true).polynomial(3);
  PrecisionPolicy policy;
  policy.max_bits = 16;
  CHECK_THROWS_AS(certified_reference(network.graph, network.inputs, policy), InvalidArgument);
  policy = {};
  policy.threads = 0;
  CHECK_THROWS_AS(certified_reference(network.graph, network.inputs, policy), InvalidArgument);
  Trace trace;
  trace.inputs = network.inputs;
  CHECK_THROWS_AS(certified_reference(network.graph, network.inputs, {}, &trace), InvalidArgument);
  trace = containment::make_trace(network, certified_reference(network.graph, network.inputs), 1, false);
  trace.layers[1].output = StoredTensor::from(Tensor<double>({1}, {0.0}));
  CHECK_THROWS_AS(local_reference(network.graph, trace), ShapeMismatch);
}

TEST_CASE("where outputs alone are asked for, they are as precise as asked, and nothing else is kept") {
  const networks::Network network = one_input(ElementType::f64, Tensor<double>({2, 1}, {0x1p-52, 1.0 / 3.0}));
  Graph graph = network.graph;
  const ValueId one = graph.add_constant("one", StoredTensor::from(Tensor<double>({1}, {1.0})));
  const ValueId tanh = graph.add_node("hidden", op::Tanh{}, {graph.inputs[0]});
  graph.outputs = {graph.add_node("out", op::Add{}, {tanh, one})};
  PrecisionPolicy policy;
  policy.outputs_only = true;
  const Reference reference = certified_reference(graph, network.inputs, policy);
  REQUIRE(reference.layers.size() == graph.nodes.size());
  for (std::size_t i = 0; i + 1 < graph.nodes.size(); ++i) CHECK(reference.layers[i].size() == 0);
  CHECK(same_bits(Reference{{reference.layers.back()}, {}, 0, 0},
                  Reference{{certified_reference(graph, network.inputs).layers.back()}, {}, 0, 0}));
  CHECK(decided(reference) == 2);
}

TEST_CASE("double-double alone stops there") {
  const networks::Network network = one_input(ElementType::f64, Tensor<double>({1, 1}, {1.0 / 3.0}));
  Graph graph = network.graph;
  graph.outputs = {graph.add_node("out", op::Tanh{}, {graph.inputs[0]})};
  PrecisionPolicy policy;
  policy.max_bits = 106;
  policy.relative_radius = 0x1p-200;
  const Reference reference = certified_reference(graph, network.inputs, policy);
  CHECK(reference.undecided == 1);
  CHECK(reference.max_bits_used == 106);
}

TEST_CASE(
    "what has no value, and what has more digits than two doubles hold, are told apart from what needs more bits") {
  const auto reference_of = [](const Op& op, double at) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}});
    graph.outputs = {graph.add_node("y", op, {x})};
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<double>({1}, {at})));
    return certified_reference(graph, inputs);
  };
  const Reference root = reference_of(op::Sqrt{}, -1.0), tiny = reference_of(op::Exp{}, -720.0),
                  plain = reference_of(op::Exp{}, -1.0);
  CHECK(root.undecided == 1);
  CHECK(root.valueless == 1);
  CHECK(root.too_fine == 0);
  CHECK(tiny.undecided == 1);
  CHECK(tiny.valueless == 0);
  CHECK(tiny.too_fine == 1);
  CHECK(plain.undecided + plain.valueless + plain.too_fine == 0);
}
