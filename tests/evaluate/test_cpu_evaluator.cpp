#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "evaluate/small_graphs.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::tests;

constexpr SummationOrder blocked = {SummationOrder::Kind::blocked, 8, true};

/// Two hidden layers, a branch, a softmax, and a node that depends on constants alone.
Graph network(std::mt19937_64& random, const Shape& input) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, dimensions(input));
  const auto constant = [&](const char* name, Shape shape) {
    return graph.add_constant(name, StoredTensor::from(random_tensor<float>(std::move(shape), random)));
  };
  const ValueId doubled = graph.add_node("doubled", op::Mul{}, {constant("s", {}), constant("w0", {40, 120})});
  const ValueId first = graph.add_node("first", op::Gemm{}, {x, doubled, constant("b0", {120})});
  const ValueId active = graph.add_node("active", op::Tanh{}, {first});
  const ValueId second = graph.add_node("second", op::MatMul{}, {active, constant("w1", {120, 40})});
  const ValueId added = graph.add_node("added", op::Add{}, {second, x});
  graph.outputs = {graph.add_node("y", op::Softmax{}, {added})};
  return graph;
}

void check_identical(const Trace& a, const Trace& b) {
  REQUIRE(a.layers.size() == b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    CAPTURE(a.layers[i].name);
    CHECK(a.layers[i].output.identical(b.layers[i].output));
  }
}

RunOptions options(std::int64_t batch, int threads) {
  RunOptions result;
  result.batch = batch;
  result.threads = threads;
  return result;
}

TEST_CASE("the bits depend neither on the batch size nor on the number of threads") {
  std::mt19937_64 random(12);
  const Graph graph = network(random, {open, 40});
  const Inputs data = inputs({{"x", StoredTensor::from(random_tensor<float>({701, 40}, random))}});
  for (const char* name : {"fp32", "tf32", "bf16"}) {
    const Evaluator evaluator = cpu_evaluator(cpu_arithmetic(name, blocked));
    const Trace once = evaluator.run(graph, data);
    CHECK(once.samples == 701);
    CHECK(once.layers[0].output.shape() == Shape{40, 120});
    CHECK(once.layers[1].output.shape() == Shape{701, 120});
    CHECK(once.layers.back().output.type() == ElementType::f32);
    for (const int threads : {1, 2, 3}) {
      for (const std::int64_t batch : {1, 7, 0, 5000})
        check_identical(once, evaluator.run(graph, data, options(batch, threads)));
    }
  }
}

TEST_CASE("rows of a batch are what each sample gives alone") {
  std::mt19937_64 random(13);
  const Graph graph = network(random, {open, 40});
  const Tensor<float> x = random_tensor<float>({5, 40}, random);
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", blocked));
  const Trace together = evaluator.run(graph, inputs({{"x", StoredTensor::from(x)}}));
  for (std::int64_t sample = 0; sample < 5; ++sample) {
    const auto first = x.values.begin() + sample * 40;
    const Tensor<float> row({1, 40}, std::vector<float>(first, first + 40));
    const Trace alone = evaluator.run(graph, inputs({{"x", StoredTensor::from(row)}}));
    check_identical(alone, slice(graph, batch_layout(graph), together, sample, 1));
  }
}

TEST_CASE("a product of two values that depend on the input is that of each batch") {
  std::mt19937_64 random(16);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, dimensions({open, 5, 4}));
  const ValueId turned = graph.add_node("turned", op::Transpose{{0, 2, 1}}, {x});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, turned})};
  const Inputs data = inputs({{"x", StoredTensor::from(random_tensor<float>({6, 5, 4}, random))}});
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", blocked));
  const Trace once = evaluator.run(graph, data);
  for (const std::int64_t batch : {1, 2, 4}) check_identical(once, evaluator.run(graph, data, options(batch, 1)));
}

TEST_CASE("a model that takes one sample runs once a sample and its results are stacked") {
  std::mt19937_64 random(14);
  Graph fixed = network(random, {1, 40});
  fixed.outputs = {
      fixed.add_node("one row", op::Reshape{{1, -1}}, {fixed.outputs[0]})};  // keeps samples from sharing a run
  std::mt19937_64 again(14);
  const Graph batched = network(again, {open, 40});
  const Tensor<float> x = random_tensor<float>({3, 40}, random);
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", blocked));
  const Trace apart = evaluator.run(fixed, inputs({{"x", StoredTensor::from(x)}}), options(2, 1));
  const Trace together = evaluator.run(batched, inputs({{"x", StoredTensor::from(x)}}));
  CHECK(apart.samples == 3);
  CHECK(apart.layers[0].output.identical(together.layers[0].output));
  for (std::size_t i = 1; i < together.layers.size(); ++i) {
    const Shape& shape = together.layers[i].output.shape();
    CHECK(apart.layers[i].output.shape() == Shape{3, 1, shape[1]});
    CHECK(apart.layers[i].output.to_double().values == together.layers[i].output.to_double().values);
  }
  const auto scalars = evaluate_as<float>(fixed, inputs({{"x", StoredTensor::from(x)}}));
  for (std::size_t i = 0; i < scalars.size(); ++i) CHECK(scalars[i].shape == apart.layers[i].output.shape());
}

TEST_CASE("a run keeps the inputs as given and uses them rounded to the model's type") {
  const std::vector<Tensor<float>> shape_only = {tensor<float>({1}, {0.0f})};
  const Graph graph = graph_of<float>(op::Identity{}, shape_only);
  const Inputs given = inputs({{"x0", StoredTensor::from(tensor<double>({1}, {0.1}))}});
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp64", blocked)).run(graph, given);
  CHECK(trace.inputs.at("x0").to_double().values[0] == 0.1);
  CHECK(trace.layers[0].output.type() == ElementType::f64);
  CHECK(trace.layers[0].output.to_double().values[0] == static_cast<double>(0.1f));
}

TEST_CASE("a trace says what ran where") {
  const std::vector<Tensor<float>> x = {tensor<float>({1}, {1.0f})};
  const ArithmeticModel arithmetic = cpu_arithmetic("bf16", blocked);
  const Trace trace = cpu_evaluator(arithmetic).run(graph_of<float>(op::Relu{}, x), inputs_of(x));
  CHECK(trace.arithmetic.name == "bf16");
  CHECK(trace.arithmetic.order == blocked);
  CHECK(trace.provenance.program.rfind("driftbound ", 0) == 0);
  CHECK(trace.provenance.backend == "cpu");
  CHECK(!trace.provenance.device.empty());
  CHECK(trace.provenance.date.size() == std::string("2026-01-01T00:00:00Z").size());
  CHECK(trace.model_sha256.empty());
}

TEST_CASE("progress is told after every batch and can stop the run") {
  std::mt19937_64 random(15);
  const Graph graph = network(random, {open, 40});
  const Inputs data = inputs({{"x", StoredTensor::from(random_tensor<float>({10, 40}, random))}});
  std::vector<std::int64_t> seen;
  RunOptions run = options(4, 1);
  run.progress = [&](std::int64_t done, std::int64_t all) {
    seen.push_back(done);
    return all == 10 && done < 8;
  };
  CHECK_THROWS_AS(cpu_evaluator(cpu_arithmetic("fp32", blocked)).run(graph, data, run), Interrupted);
  CHECK(seen == std::vector<std::int64_t>{4, 8});
}

TEST_CASE("arithmetics that this evaluator cannot execute are refused") {
  const auto with = [](auto change) {
    ArithmeticModel arithmetic = cpu_arithmetic("fp32", blocked);
    change(arithmetic);
    return arithmetic;
  };
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.order.kind = SummationOrder::Kind::unknown; })), Unsupported);
  CHECK_THROWS_WITH_AS(cpu_evaluator(with([](auto& a) { a.order = parse_summation_order("height:6"); })),
                       doctest::Contains("height:6, says how high a tree of additions is"), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.accumulator = FormatId::fp16; })), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.output = FormatId::fp64; })), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.input = FormatId::fp64; })), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.rounding = Rounding::toward_zero; })), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.flushes_subnormals = true; })), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.products_may_flush = true; })), Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.tensor_core = TensorCore{25, 8}; })), Unsupported);  // fp32 operands
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) {
                    a.input = FormatId::tf32;
                    a.order.kind = SummationOrder::Kind::pairwise;
                    a.tensor_core = TensorCore{25, 8};
                  })),
                  Unsupported);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) {
                    a.input = FormatId::tf32;
                    a.tensor_core = TensorCore{25, 65};
                  })),
                  InvalidArgument);
  CHECK_THROWS_AS(cpu_evaluator(with([](auto& a) { a.order.parameter = 0; })), InvalidArgument);
}

TEST_CASE("wrong options, shapes and environments are errors") {
  const std::vector<Tensor<float>> x = {tensor<float>({2}, {1.0f, 2.0f})};
  const Graph graph = graph_of<float>(op::Relu{}, x);
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", blocked));
  CHECK_THROWS_AS(evaluator.run(graph, inputs_of(x), options(0, 0)), InvalidArgument);
  CHECK_THROWS_AS(evaluator.run(graph, inputs_of(x), options(-1, 1)), InvalidArgument);
  CHECK_THROWS_AS(evaluator.run(graph, inputs_of<float>({tensor<float>({3}, {1, 2, 3})})), ShapeMismatch);
  const int mode = std::fegetround();
  std::fesetround(FE_UPWARD);
  CHECK_THROWS_AS(evaluator.run(graph, inputs_of(x)), UnsoundEnvironment);
  std::fesetround(mode);
}

}  // namespace
