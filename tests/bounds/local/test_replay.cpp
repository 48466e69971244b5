#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "bounds/local/determined.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "faults/theorems.hpp"
#include "support/approach.hpp"
#include "support/replay_checks.hpp"

// A declared order that fixes every number, made again (T-97).

using namespace checks;

namespace {

ArithmeticModel fp32(const char* order = "sequential") {
  return cpu_arithmetic("fp32", parse_summation_order(order));
}

/// The same arithmetic, as another program says it.
ArithmeticModel elsewhere(ArithmeticModel arithmetic = fp32()) {
  arithmetic.source = "another program";
  return arithmetic;
}

/// x -> op(x), or op(x, W) where there is a W.
Graph graph_of(const Op& op, const std::vector<Tensor<double>>& constants = {}, ElementType type = ElementType::f32) {
  Graph graph;
  std::vector<ValueId> operands = {graph.add_input("x", type, {{-1, "N"}, {4, ""}})};
  for (const Tensor<double>& constant : constants)
    operands.push_back(graph.add_constant("c" + std::to_string(operands.size()), StoredTensor::from(constant)));
  graph.outputs = {graph.add_node("the node", op, operands)};
  return graph;
}

Tensor<double> filled(const Shape& shape, double value = 0.1) {
  Tensor<double> tensor(shape);
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.values[i] = value * (1.0 + 0.37 * static_cast<double>(i));
  return tensor;
}

Tensor<double> in_float(Tensor<double> tensor) {
  for (double& value : tensor.values) value = static_cast<double>(static_cast<float>(value));
  return tensor;
}

Inputs inputs_of(const Tensor<float>& x) {
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(x));
  return inputs;
}

Tensor<float> some_inputs(std::int64_t rows = 3, std::int64_t columns = 4) {
  Tensor<float> x({rows, columns});
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = 0.3f * static_cast<float>(i) - 1.1f;
  return x;
}

BoundOptions asked(std::vector<BoundRequest> requests) {
  BoundOptions options;
  options.requests = std::move(requests);
  return options;
}

const BoundResult& replay_in(const Bounds& bounds) {
  const BoundResult* found = find_bound(bounds.layers.back().accumulated, BoundKind::replay);
  REQUIRE(found != nullptr);
  return *found;
}

Graph two_layers() {
  Generator generator(1);
  return replay_network(Data::uniform, 4, 12, generator);
}

}  // namespace

TEST_CASE("plain loops in float in every order and format err by what the replay says, and by no more (T-97)" *
          doctest::test_suite("campaign")) {
  const ReplayTally tally = check_replays(test_multiplier(), 96);
  INFO(tally.bound.first_violation);
  CHECK(tally.bound.violations == 0);
  CHECK(tally.bound.checked > 2000);
  CHECK(tally.infinite > 0);
  CHECK_APPROACH("T-97", tally.bound.utilisation, 0.99999);
}

TEST_CASE("runs of matrix units err by what the replay by the kernels found says, and by no more (T-171)" *
          doctest::test_suite("campaign")) {
  const ReplayTally tally = check_replays_of_units(test_multiplier(), 171);
  INFO(tally.bound.first_violation);
  CHECK(tally.bound.violations == 0);
  CHECK(tally.bound.checked >= 300);
  CHECK_APPROACH("T-171", tally.bound.utilisation, 0.99);
}

TEST_CASE("a run of a matrix unit is made again by the kernels found in it, under the condition that they compute it") {
  const Graph graph = two_layers();
  Trace trace = cpu_evaluator(simulated_arithmetic("h100", "tf32", parse_summation_order("sequential+fma")))
                    .run(graph, inputs_of(some_inputs(20)));
  const KernelsByNode kernels = kernels_in(graph, trace);
  const BoundOptions options = asked({BoundKind::replay, BoundKind::shadow});
  const auto bounds_of = [&](const KernelsByNode& found) { return Bounder(graph, options)(trace, {}, {}, found); };
  for (const bool is_declared : {true, false}) {
    if (!is_declared) trace.arithmetic.order = {};
    const Bounds bounds = bounds_of(kernels);
    const BoundResult& replay = replay_in(bounds);
    for (const LayerBounds& layer : bounds.layers) CHECK(layer.differing == 0);
    CHECK(replay.theorem == "T-171");
    CHECK(replay.guarantee == Guarantee::conditional);
    CHECK(replay.condition.find("by the same kernels (T-170)") != std::string::npos);
    CHECK(replay.values.values == find_bound(bounds.layers.back().accumulated, BoundKind::shadow)->values.values);
  }
  CHECK(find_bound(Bounder(graph, asked({}))(trace, {}, {}, kernels).layers.back().accumulated, BoundKind::replay));
  CHECK_FALSE(find_bound(bound(graph, trace, asked({})).layers.back().accumulated, BoundKind::replay));

  KernelsByNode one_missing = kernels;
  one_missing[0].reset();
  CHECK(replay_in(bounds_of(one_missing)).not_applicable.find("gives all recorded numbers of Gemm '") !=
        std::string::npos);
  CHECK(replay_in(bounds_of({})).not_applicable.find("has a matrix unit") != std::string::npos);
  KernelsByNode other_channels = kernels;
  other_channels[0]->channels_together = 8;
  CHECK(replay_in(bounds_of(other_channels)).not_applicable.find("an order that is not executed") != std::string::npos);
  CHECK_THROWS_AS(bounds_of(KernelsByNode(3)), ShapeMismatch);

  KernelsByNode other = kernels;  // not the kernel of the run
  REQUIRE(other[2].has_value());
  other[2]->operands = FormatId::bf16;
  CHECK(bounds_of(other).layers[0].differing == 0);
  CHECK(bounds_of(other).layers[2].differing.value() > 0);
}

TEST_CASE("a float64 run of an unknown order is made again by the kernels found in it") {
  const Graph graph = two_layers();
  for (const char* order : {"split-k:2+fma", "pairwise", "lanes:4x1/halves"}) {
    CAPTURE(order);
    Trace trace =
        cpu_evaluator(cpu_arithmetic("fp64", parse_summation_order(order))).run(graph, inputs_of(some_inputs(20)));
    const StoredTensor recorded = trace.layers.back().output;
    trace.arithmetic.order = {};
    const KernelsByNode kernels = kernels_in(graph, trace);
    const Bounds bounds = Bounder(graph, asked({BoundKind::replay, BoundKind::shadow}))(trace, {}, {}, kernels);
    for (const LayerBounds& layer : bounds.layers) CHECK(layer.differing == 0);
    CHECK(replay_in(bounds).theorem == "T-171");
    const ArithmeticModel executed = bounds::executed_by_kernels(trace.arithmetic, kernels);
    const Trace again = cpu_evaluator(executed, kernels).run(graph, inputs_of(some_inputs(20)));
    CHECK(again.layers.back().output.to_double().values == recorded.to_double().values);
    KernelsByNode single = kernels;
    REQUIRE(single[0].has_value());
    single[0]->operands = FormatId::fp32;
    CHECK_THROWS_WITH_AS(cpu_evaluator(executed, single), doctest::Contains("sums of another format"), Unsupported);
  }
}

TEST_CASE("a replay by kernels needs to know how other ops add up and are computed") {
  const auto reason = [](const Graph& graph, const ArithmeticModel& arithmetic) {
    return bounds::undetermined_by(graph, arithmetic, KernelsByNode(graph.nodes.size()));
  };
  ArithmeticModel vendor = fp32();
  vendor.order = {};
  vendor.products_may_flush = true;
  vendor.evidence = Evidence::assumed;
  vendor.source = "a vendor's library, its order unknown; every other op by driftbound CUDA kernels";
  CHECK(reason(graph_of(op::Tanh{}), vendor).empty());
  CHECK(reason(graph_of(op::Mul{}, {in_float(filled({4}))}), vendor).empty());
  CHECK(reason(graph_of(op::Softmax{}), vendor).find("an order that is not known") != std::string::npos);
  CHECK(reason(graph_of(op::ReduceSum{{1}}), vendor).find("an order that is not known") != std::string::npos);
  ArithmeticModel with_order = vendor;
  with_order.order = parse_summation_order("pairwise");
  CHECK(reason(graph_of(op::Softmax{}), with_order).empty());
  ArithmeticModel others = vendor;
  others.source = "a program whose other ops are its own";
  CHECK(reason(graph_of(op::Mul{}, {in_float(filled({4}))}), others).find("fused with an addition") !=
        std::string::npos);
}

TEST_CASE("a recorded run of the declared order is known as such, its error is that of every run") {
  const Graph graph = two_layers();
  const Trace trace = cpu_evaluator(fp32()).run(graph, inputs_of(some_inputs()));
  const Bounds bounds = bound(graph, trace, asked({BoundKind::replay, BoundKind::shadow}));
  const BoundResult& replay = replay_in(bounds);
  for (const LayerBounds& layer : bounds.layers) CHECK(layer.differing == 0);
  CHECK(replay.guarantee == Guarantee::proven);
  CHECK(replay.question == Question::any_run);
  CHECK(replay.theorem == "T-97");
  CHECK(replay.values.values == find_bound(bounds.layers.back().accumulated, BoundKind::shadow)->values.values);
  CHECK(replay_in(bound(graph, trace, asked({BoundKind::replay}))).values.values == replay.values.values);
  CHECK(bounds.assumptions.empty());
}

TEST_CASE(
    "a run in another order than declared differs from the first layer on, and targets have bounds of their own") {
  const Graph graph = two_layers();
  const Inputs inputs = inputs_of(some_inputs(20));
  Trace trace = cpu_evaluator(fp32("pairwise")).run(graph, inputs);
  trace.arithmetic = fp32();
  BoundOptions options = asked({BoundKind::replay, BoundKind::shadow});
  options.targets = {{{0, 1}, OutputElement{0, 0}}};
  const Bounds bounds = bound(graph, trace, options);
  CHECK(bounds.layers.front().differing.value() > 0);
  CHECK(bounds.layers.back().differing.value() > 0);
  const Trace declared = cpu_evaluator(fp32()).run(graph, inputs);
  const Bounds of_declared = bound(graph, declared, options);
  CHECK(replay_in(bounds).values.values == replay_in(of_declared).values.values);
  const BoundResult* target = find_bound(bounds.targets.at(0).bounds, BoundKind::replay);
  REQUIRE(target != nullptr);
  CHECK(target->values.values == find_bound(of_declared.targets.at(0).bounds, BoundKind::shadow)->values.values);
  CHECK(target->values.values != find_bound(bounds.targets.at(0).bounds, BoundKind::shadow)->values.values);
}

TEST_CASE("a run that was made here is its own replay") {
  const Graph graph = two_layers();
  const Trace trace = cpu_evaluator(fp32()).run(graph, inputs_of(some_inputs()));
  const ScopedTheorems in_force(with_fault([](Theorems& theorems) {
    theorems.replayed = [](const Graph&, const Trace&, const KernelsByNode&, int) -> std::vector<Tensor<double>> {
      throw std::logic_error("made again");
    };
  }));
  BoundOptions options = asked({BoundKind::replay, BoundKind::shadow});
  CHECK_THROWS_AS(bound(graph, trace, options), std::logic_error);
  options.trace_is_declared_run = true;
  const Bounds bounds = bound(graph, trace, options);
  CHECK(replay_in(bounds).values.values ==
        find_bound(bounds.layers.back().accumulated, BoundKind::shadow)->values.values);
  CHECK_FALSE(bounds.layers.front().differing.has_value());
  Trace of_another = trace;
  of_another.provenance.program = "another program";
  CHECK_THROWS_AS(bound(graph, of_another, options), std::logic_error);
}

TEST_CASE("signs of zeros and which NaN it is are no difference; the rows of a NaN have no bound") {
  const Graph graph = graph_of(op::Relu{});
  Tensor<float> x = some_inputs();
  x.values[5] = std::numeric_limits<float>::quiet_NaN();
  Trace trace = cpu_evaluator(fp32()).run(graph, inputs_of(x));
  Tensor<double> y = trace.layers[0].output.to_double();
  REQUIRE(y.values[0] == 0.0);
  y.values[0] = -0.0;
  trace.layers[0].output = StoredTensor::from(y);
  const Bounds bounds = bound(graph, trace, asked({BoundKind::replay}));
  CHECK(bounds.layers[0].differing == 0);
  for (std::size_t i = 0; i < 12; ++i) CHECK(std::isfinite(replay_in(bounds).values.values[i]) == (i / 4 != 1));
}

TEST_CASE("a model whose inputs are one evaluation is made again as one") {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {3, 4});
  const ValueId w = graph.add_constant("w", StoredTensor::from(in_float(filled({4, 2}))));
  graph.outputs = {graph.add_node("product", op::MatMul{}, {x, w})};
  Trace whole;
  whole.inputs = inputs_of(some_inputs());
  whole.arithmetic = fp32();
  whole.provenance = own_provenance;
  whole.samples = 1;
  whole.layers.push_back({"product", StoredTensor::from(Tensor<float>({3, 2}))});
  const Bounds bounds = bound(graph, whole, asked({BoundKind::replay}));
  CHECK(bounds.layers[0].differing == 6);
  CHECK(replay_in(bounds).values.shape == Shape{3, 2});
  for (const double value : replay_in(bounds).values.values) CHECK(value < 1e-6);
}

TEST_CASE("what an arithmetic leaves open is said, with the node") {
  struct Open {
    Graph graph;
    ArithmeticModel arithmetic;
    std::string reason;  ///< a part of it; empty: nothing is open
  };
  ArithmeticModel flushing = fp32(), unit = elsewhere(), height = elsewhere(), narrow = elsewhere(),
                  rounded = elsewhere();
  flushing.flushes_subnormals = true;
  unit.tensor_core = TensorCore{};
  height.order = parse_summation_order("height:7");
  narrow.output = FormatId::bf16;
  rounded.reduced_reduction = ReducedReduction{};
  ArithmeticModel cuda = elsewhere();
  cuda.functions = function_library("cuda").functions;
  ArithmeticModel no_functions = elsewhere();
  no_functions.functions.clear();
  ArithmeticModel correct = elsewhere();
  for (FunctionAccuracy& entry : correct.functions) entry = {entry.function, 1.0, Evidence::documented, "x", 0.0};
  ArithmeticModel fp64 = elsewhere(cpu_arithmetic("fp64", parse_summation_order("pairwise")));
  ArithmeticModel one_unit = fp64, one_unit_fp32 = elsewhere();
  for (FunctionAccuracy& entry : fp64.functions) entry.source = "another library, correctly rounded";
  for (ArithmeticModel* model : {&one_unit, &one_unit_fp32})
    for (FunctionAccuracy& entry : model->functions) entry = {entry.function, 1.0, Evidence::documented, "1 unit", 0.0};
  ArithmeticModel tf32 = elsewhere(cpu_arithmetic("tf32", parse_summation_order("pairwise")));
  ArithmeticModel on_device = fp32();
  on_device.source = "driftbound CUDA kernels";
  const Tensor<double> w = in_float(filled({4, 4})), c = in_float(filled({4}));
  op::Gemm scaled, scaled_addend;
  scaled.alpha = 0.5;
  scaled_addend.beta = 2.0;
  op::Gemm negated;
  negated.alpha = -1.0;
  const std::vector<Open> cases = {
      {graph_of(op::MatMul{}, {w}), elsewhere(), ""},
      {graph_of(op::MatMul{}, {w}), elsewhere(fp32("blocked:8+fma")), ""},
      {graph_of(op::MatMul{}, {w}), elsewhere(cpu_arithmetic("fp32", {})), "order of summation is unknown"},
      {graph_of(op::MatMul{}, {w}), height, "height:7"},
      {graph_of(op::MatMul{}, {w}), flushing, "subnormal"},
      {graph_of(op::MatMul{}, {w}), unit, "matrix unit"},
      {graph_of(op::MatMul{}, {w}), narrow, "is stored in bf16, unless it is fused"},
      {graph_of(op::MatMul{}, {w}), rounded, "rounds parts of sums"},
      {graph_of(op::MatMul{}, {w}), tf32, "stored in float64"},
      {graph_of(op::MatMul{}, {w}), fp64, ""},
      {graph_of(op::Gemm{}, {w, c}), elsewhere(), ""},
      {graph_of(negated, {w, c}), elsewhere(), ""},
      {graph_of(scaled, {w, c}), elsewhere(), "Gemm 'the node' scales its sums"},
      {graph_of(scaled, {w, c}), fp32(), ""},
      {graph_of(scaled_addend, {w, c}), elsewhere(), "scales its addend"},
      {graph_of(scaled_addend, {w}), elsewhere(), ""},
      {graph_of(op::Sqrt{}), elsewhere(), ""},
      {graph_of(op::Sqrt{}), cuda, ""},
      {graph_of(op::Sqrt{}), no_functions, "sqrt of 'the node'"},
      {graph_of(op::Sqrt{}), one_unit_fp32, "sqrt of 'the node'"},
      {graph_of(op::Tanh{}), one_unit, "tanh of 'the node'"},
      {graph_of(op::Tanh{}), fp32(), ""},
      {graph_of(op::Tanh{}), elsewhere(), ""},
      {graph_of(op::Tanh{}), cuda, "tanh of 'the node'"},
      {graph_of(op::Tanh{}), correct, "tanh of 'the node'"},
      {graph_of(op::Tanh{}), fp64, ""},
      {graph_of(op::Softmax{}), elsewhere(), "Softmax 'the node' may be computed by other steps"},
      {graph_of(op::Softmax{}), fp32(), ""},
      {graph_of(op::Softmax{}), on_device, ""},
      {graph_of(op::Gelu{}), elsewhere(), "Gelu 'the node' may be computed by other steps"},
      {graph_of(op::Gelu{}), fp32(), ""},
      {graph_of(op::Elu{}), elsewhere(), "Elu 'the node'"},
      {graph_of(op::Mul{}, {c}), fp32(), ""},
      {graph_of(op::Mul{}, {c}), elsewhere(), "Mul 'the node' may be fused"},
      {graph_of(op::Add{}, {c}), elsewhere(), ""},
      {graph_of(op::Cast{ElementType::f16}), fp32(), ""},
      {graph_of(op::Cast{ElementType::f16}), elsewhere(), "Cast 'the node' may be left out"},
      {graph_of(op::ReduceSum{{1}}), elsewhere(), ""},
      {graph_of(op::ReduceSum{{0, 1}}), elsewhere(), "several axes"},
      {graph_of(op::ReduceSum{}), elsewhere(), "several axes"},
      {graph_of(op::ReduceMax{}), elsewhere(), ""},
  };
  for (const Open& open : cases) {
    const std::string found = bounds::undetermined_by(open.graph, open.arithmetic);
    CAPTURE(found);
    CAPTURE(open.reason);
    CHECK(found.empty() == open.reason.empty());
    CHECK(found.find(open.reason) != std::string::npos);
  }
}

TEST_CASE(
    "where something is open the bound says so in place of a number, and who does not ask is told of orders alone") {
  const Graph graph = graph_of(op::Tanh{});
  Trace trace = cpu_evaluator(fp32()).run(graph, inputs_of(some_inputs()));
  trace.arithmetic = elsewhere();
  trace.arithmetic.functions = function_library("cuda").functions;
  BoundOptions options = asked({BoundKind::replay});
  options.targets = {{{0, 0}, std::nullopt}};
  const Bounds bounds = bound(graph, trace, options);
  CHECK(replay_in(bounds).not_applicable.find("tanh of 'the node'") != std::string::npos);
  CHECK(std::isinf(replay_in(bounds).values.values.at(0)));
  CHECK(std::isinf(find_bound(bounds.targets.at(0).bounds, BoundKind::replay)->values.values.at(2)));
  CHECK_FALSE(bounds.layers[0].differing.has_value());

  trace.arithmetic.order = {};
  CHECK(find_bound(bound(graph, trace, asked({})).layers[0].accumulated, BoundKind::replay) == nullptr);
  CHECK_FALSE(replay_in(bound(graph, trace, asked({BoundKind::replay}))).not_applicable.empty());
}

TEST_CASE(
    "what a replay stands on: nothing in our own runs, functions included; the declaration in others; a body's steps") {
  const auto of = [](const Op& op, const std::function<void(Trace&)>& change) {
    const Graph graph = graph_of(op);
    Trace trace = cpu_evaluator(fp32()).run(graph, inputs_of(some_inputs()));
    change(trace);
    return replay_in(bound(graph, trace, asked({BoundKind::replay})));
  };
  const auto leave = [](Trace&) {};
  const auto say_elsewhere = [](Trace& trace) { trace.arithmetic = elsewhere(); };
  CHECK(of(op::Tanh{}, leave).guarantee == Guarantee::proven);
  CHECK(of(op::Tanh{}, say_elsewhere).guarantee == Guarantee::conditional);
  CHECK(of(op::Tanh{}, say_elsewhere).condition.find("another program") != std::string::npos);
  CHECK(of(op::Gelu{}, leave).guarantee == Guarantee::conditional);
  CHECK(of(op::Gelu{}, leave).condition.find("A-04") != std::string::npos);
}
