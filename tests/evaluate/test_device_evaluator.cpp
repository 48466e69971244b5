#include <dlfcn.h>
#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/model/load.hpp"
#include "evaluate/every_op.hpp"
#include "evaluate/small_graphs.hpp"
#include "support/environment.hpp"
#include "support/half_network.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::tests;
using driftbound::test::ScopedVariable;

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";

/// Lets cuda_evaluator find the host double of the CUDA module.
ScopedVariable with_host_module() {
  return ScopedVariable("DRIFTBOUND_PLUGIN_PATH", DRIFTBOUND_HOST_MODULE_FOLDER);
}

std::uint64_t live_bytes() {
  const std::string file = std::string(DRIFTBOUND_HOST_MODULE_FOLDER) + "/libdriftbound_cuda.so";
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  return reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "driftbound_host_module_live_bytes"))();
}

CudaOptions cuda_options(const std::string& arithmetic, CudaProduct product,
                         const std::string& order = "blocked:8+fma") {
  CudaOptions options;
  options.arithmetic = arithmetic;
  options.product = product;
  options.order = parse_summation_order(order);
  return options;
}

Evaluator ordered_on_device(const std::string& arithmetic, const std::string& order) {
  return cuda_evaluator(cuda_options(arithmetic, CudaProduct::ordered, order));
}

Evaluator on_cpu(const std::string& arithmetic, const std::string& order) {
  return cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order(order)));
}

RunOptions in_batches(std::int64_t batch) {
  RunOptions options;
  options.batch = batch;
  return options;
}

void check_identical(const Trace& a, const Trace& b) {
  REQUIRE(a.layers.size() == b.layers.size());
  CHECK(a.samples == b.samples);
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    CAPTURE(a.layers[i].name);
    CHECK(a.layers[i].output.identical(b.layers[i].output));
  }
}

/// Branches, aliases, constants of constants, an f64 weight, values used twice.
Graph network(std::mt19937_64& random) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, dimensions({open, 6}));
  const auto constant = [&](const char* name, Shape shape) {
    return graph.add_constant(name, StoredTensor::from(random_tensor<float>(std::move(shape), random)));
  };
  const ValueId wide = graph.add_constant("wide", StoredTensor::from(random_tensor<double>({6, 8}, random)));
  const ValueId doubled = graph.add_node("doubled", op::Mul{}, {constant("s", {}), constant("w0", {6, 8})});
  const ValueId first = graph.add_node("first", op::Gemm{0.7, 1.3, false, false}, {x, doubled, constant("b", {8})});
  const ValueId active = graph.add_node("active", op::Tanh{}, {first});
  const ValueId second = graph.add_node("second", op::MatMul{}, {x, wide});
  const ValueId joined = graph.add_node("joined", op::Concat{1}, {active, second, first});
  const ValueId cube = graph.add_node("cube", op::Reshape{{0, 4, 6}, false}, {joined});
  const ValueId turned = graph.add_node("turned", op::Transpose{{0, 2, 1}}, {cube});
  const ValueId scores = graph.add_node("scores", op::MatMul{}, {cube, turned});
  const ValueId weights = graph.add_node("weights", op::Softmax{}, {scores});
  const ValueId mixed = graph.add_node("mixed", op::MatMul{}, {weights, cube});
  graph.outputs = {graph.add_node("sum", op::Add{}, {mixed, cube}), weights};
  return graph;
}

Inputs inputs_for(std::mt19937_64& random, std::int64_t samples) {
  return inputs({{"x", StoredTensor::from(random_tensor<float>({samples, 6}, random))}});
}

TEST_CASE("stored results have the bits of the CPU evaluator, in one format and in the types that a model declares") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(2713);
  const Graph graph = half_network(random);
  const Inputs data = half_inputs(random);
  for (const std::optional<FormatId> output : {std::optional<FormatId>(), {FormatId::fp16}, {FormatId::bf16}}) {
    for (const char* name : {"fp32", "tf32", "fp16"}) {
      CudaOptions options = cuda_options(name, CudaProduct::ordered);
      options.output = output;
      options.stores_declared_types = !output;
      ArithmeticModel arithmetic = cpu_arithmetic(name, options.order);
      arithmetic.output = output.value_or(arithmetic.output);
      arithmetic.stores_declared_types = !output;
      CAPTURE(name);
      check_identical(cuda_evaluator(options).run(graph, data), cpu_evaluator(arithmetic).run(graph, data));
    }
  }
}

TEST_CASE("every op releases the device's memory") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(41);
  for (const OpCase& one : every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    ordered_on_device("fp32", "pairwise").run(graph_of(one.op, one.operands), inputs_of(one.operands));
    CHECK(live_bytes() == 0);
  }
}

TEST_CASE("in fp64 everything but the elementary functions has the bits of the CPU evaluator") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(42);
  const auto has_function = [](const Op& op) {
    for (const char* name : {"Elu",
                             "Tanh",
                             "Sigmoid",
                             "Softplus",
                             "Sin",
                             "Cos",
                             "Exp",
                             "Erf",
                             "Log",
                             "Tan",
                             "Atan",
                             "Sinh",
                             "Cosh",
                             "Pow",
                             "Selu",
                             "Celu",
                             "Swish",
                             "Mish",
                             "Gelu",
                             "Softmax",
                             "LogSoftmax",
                             "ReduceLogSum",
                             "ReduceLogSumExp",
                             "Attention"})
      if (name_of(op) == name) return true;
    return false;
  };
  for (const OpCase& one : every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const Graph graph = graph_of(one.op, one.operands);
    const Trace device = ordered_on_device("fp64", "blocked:2+fma").run(graph, inputs_of(one.operands));
    const Trace cpu = on_cpu("fp64", "blocked:2+fma").run(graph, inputs_of(one.operands));
    if (!has_function(one.op)) {
      check_identical(device, cpu);
      continue;
    }
    const Tensor<double> a = device.layers[0].output.to_double(), b = cpu.layers[0].output.to_double();
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a.values[i] == doctest::Approx(b.values[i]).epsilon(1e-12));
  }
}

TEST_CASE("batch sizes do not change the bits of an ordered run") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(43);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 23);
  for (const char* arithmetic : {"fp32", "tf32", "bf16", "fp16"}) {
    const Trace cpu = on_cpu(arithmetic, "blocked:4+fma").run(graph, data);
    const Evaluator device = ordered_on_device(arithmetic, "blocked:4+fma");
    for (const std::int64_t batch : {1, 7, 0}) check_identical(device.run(graph, data, in_batches(batch)), cpu);
  }
  CHECK(live_bytes() == 0);
}

TEST_CASE("all bundled networks have the bits of the CPU evaluator" * doctest::test_suite("campaign")) {
  const ScopedVariable path = with_host_module();
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().filename().string());
    const Graph graph = load_model(entry.path().string());
    InputGenerator generator;
    generator.samples = 5;
    const Inputs data = generate_inputs(graph, generator);
    for (const char* arithmetic : {"fp32", "tf32", "bf16", "fp16"}) {
      const Trace device = ordered_on_device(arithmetic, "blocked:8+fma").run(graph, data, in_batches(2));
      check_identical(device, on_cpu(arithmetic, "blocked:8+fma").run(graph, data));
      CHECK(device.provenance.observer_effect == ObserverEffect::none);
    }
  }
}

TEST_CASE("a model that takes one sample runs once a sample, recording the rows asked for") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(44);
  const Tensor<float> x = random_tensor<float>({3, 2, 4}, random);
  Graph graph;
  const ValueId input = graph.add_input("x", ElementType::f32, dimensions({2, 4}));
  const ValueId turned = graph.add_node("turned", op::Transpose{{1, 0}}, {input});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {input, turned})};
  const Inputs data = inputs({{"x", StoredTensor::from(x)}});
  RunOptions some;
  some.rows = {0, 2};
  const Trace device = ordered_on_device("fp32", "sequential").run(graph, data, some);
  CHECK(device.layers[1].output.shape() == Shape{2, 2, 2});
  CHECK(device.inputs.at("x").shape() == Shape{2, 2, 4});
  check_identical(device, on_cpu("fp32", "sequential").run(graph, data, some));
}

TEST_CASE("chosen rows are those of the whole run, with the inputs that belong to them") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(45);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 20);
  RunOptions some = in_batches(6);
  some.rows = {1, 4, 5, 6, 7, 19};
  for (const Evaluator& evaluator : {ordered_on_device("bf16", "pairwise"), on_cpu("bf16", "pairwise")}) {
    const Trace all = evaluator.run(graph, data), chosen = evaluator.run(graph, data, some);
    CHECK(chosen.samples == 6);
    CHECK(chosen.provenance.batch == 6);
    CHECK(chosen.provenance.details.at("rows") == "6 of 20");
    const BatchLayout layout = batch_layout(graph);
    for (std::size_t i = 0; i < some.rows.size(); ++i) {
      const Trace from_all = slice(graph, layout, all, some.rows[i], 1);
      const Trace from_chosen = slice(graph, layout, chosen, static_cast<std::int64_t>(i), 1);
      check_identical(from_all, from_chosen);
      CHECK(from_all.inputs.at("x").identical(from_chosen.inputs.at("x")));
    }
  }
}

TEST_CASE("rows that do not exist or do not ascend are refused") {
  std::mt19937_64 random(46);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 4);
  for (const std::vector<std::int64_t>& rows : std::vector<std::vector<std::int64_t>>{{4}, {-1}, {2, 1}, {1, 1}}) {
    RunOptions some;
    some.rows = rows;
    CHECK_THROWS_AS(on_cpu("fp32", "pairwise").run(graph, data, some), InvalidArgument);
  }
}

TEST_CASE("products of NaN, infinities and zeros of both signs have the bits of the CPU evaluator") {
  const ScopedVariable path = with_host_module();
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float> x({2, 6}, {nan, -nan, inf, -inf, 0.0f, -0.0f, 1e38f, -1e38f, 1e-44f, -1e-44f, 7e4f, -7e4f});
  std::mt19937_64 random(47);
  const Tensor<float> w = random_tensor<float>({6, 3}, random);
  for (const char* arithmetic : {"fp32", "tf32", "bf16", "fp16"}) {
    const Graph graph = graph_of<float>(op::MatMul{}, {x, w});
    check_identical(ordered_on_device(arithmetic, "pairwise").run(graph, inputs_of<float>({x, w})),
                    on_cpu(arithmetic, "pairwise").run(graph, inputs_of<float>({x, w})));
  }
}

TEST_CASE("operands are rounded once, from the numbers as stored") {
  const ScopedVariable path = with_host_module();
  // 1 + 2^-8 + 2^-40 lies above the middle of two bfloat16 numbers; rounded to float32 first it is the middle.
  const Tensor<double> x({1, 1}, {1.0 + 0x1p-8 + 0x1p-40}), one({1, 1}, {1.0});
  const Graph graph = graph_of<double>(op::MatMul{}, {x, one});
  for (const CudaProduct product : {CudaProduct::ordered, CudaProduct::vendor}) {
    const Trace trace = cuda_evaluator(cuda_options("bf16", product)).run(graph, inputs_of<double>({x, one}));
    CHECK(trace.layers[0].output.to_double().values[0] == 1.0 + 0x1p-7);
  }
}

TEST_CASE("vendor products give close results in every mode, and their traces say what is known") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(48);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 9);
  const Tensor<double> exact = on_cpu("fp64", "pairwise").run(graph, data).layers.back().output.to_double();
  struct Mode {
    std::string arithmetic;
    CudaProduct product;
    double tolerance;
  };
  for (const Mode& mode : std::vector<Mode>{{"fp64", CudaProduct::vendor, 1e-13},
                                            {"fp64", CudaProduct::vendor_pedantic, 1e-13},
                                            {"fp32", CudaProduct::vendor, 1e-4},
                                            {"fp32", CudaProduct::vendor_pedantic, 1e-4},
                                            {"tf32", CudaProduct::vendor, 5e-2},
                                            {"bf16", CudaProduct::vendor, 5e-1},
                                            {"fp16", CudaProduct::vendor, 5e-2}}) {
    CAPTURE(mode.arithmetic);
    const Evaluator evaluator = cuda_evaluator(cuda_options(mode.arithmetic, mode.product));
    const Trace trace = evaluator.run(graph, data, in_batches(4));
    const Tensor<double> y = trace.layers.back().output.to_double();
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::abs(y.values[i] - exact.values[i]) < mode.tolerance);
    CHECK(to_json(trace.arithmetic) == to_json(evaluator.arithmetic()));
    CHECK(trace.arithmetic.order.kind == SummationOrder::Kind::unknown);
    CHECK(trace.arithmetic.products_may_flush);
    CHECK(trace.arithmetic.evidence == Evidence::assumed);
    CHECK(trace.arithmetic.source.find("cuBLAS 13.0.0 CUBLAS_COMPUTE_") != std::string::npos);
    const bool is_narrow = trace.arithmetic.input != trace.arithmetic.accumulator;
    REQUIRE(trace.arithmetic.tensor_core.has_value() == is_narrow);
    if (is_narrow) CHECK(trace.arithmetic.tensor_core->fraction_bits == 25);
    if (is_narrow) CHECK(trace.arithmetic.tensor_core->block == (mode.arithmetic == "tf32" ? 4 : 8));
    CHECK(trace.provenance.backend == "cuda");
    CHECK(trace.provenance.device == "host double");
    CHECK(trace.provenance.details.at("driver") == "13.0");
    CHECK(trace.provenance.details.at("cuBLAS") == "13.0.0");
    CHECK(trace.provenance.details.at("math mode").rfind("CUBLAS_COMPUTE_", 0) == 0);
    CHECK(trace.provenance.batch == 4);
  }
  CHECK(live_bytes() == 0);
}

TEST_CASE("a run by an algorithm computes its products by it, and its trace says which it was") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(49);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, dimensions({open, 60}));
  const auto constant = [&](const char* name, Shape shape) {
    return graph.add_constant(name, StoredTensor::from(random_tensor<float>(std::move(shape), random)));
  };
  const ValueId first = graph.add_node("first", op::MatMul{}, {x, constant("w", {60, 3})});
  graph.outputs = {graph.add_node("second", op::MatMul{}, {first, constant("v", {3, 5})})};
  Inputs data;
  data.tensors = {{"x", StoredTensor::from(random_tensor<float>({9, 60}, random))}};
  CudaOptions options = cuda_options("fp32", CudaProduct::by_algorithm);
  const char* const orders[] = {"sequential+fma", "split-k:2+fma"};
  for (int algorithm = 0; algorithm < 2; ++algorithm) {
    CAPTURE(algorithm);
    options.algorithm = algorithm;
    const Trace trace = cuda_evaluator(options).run(graph, data, in_batches(4));
    check_identical(trace, on_cpu("fp32", orders[algorithm]).run(graph, data));
    CHECK(trace.arithmetic.order.kind == SummationOrder::Kind::unknown);
    CHECK(trace.arithmetic.source.find("cuBLASLt 13.0.0 CUBLAS_COMPUTE_32F on host double") == 0);
    const auto& details = trace.provenance.details;
    CHECK(details.at("gemm") == "cublaslt");
    CHECK(details.at("algorithm") == std::to_string(algorithm));
    CHECK(details.at("algorithm of first") ==
          (algorithm == 0 ? "id 21, tile 64x64, stages 32x3"
                          : "id 22, tile 64x64, stages 32x3, K in 2 parts added in the type of the sums"));
    CHECK(details.count("algorithm of second") == 1);
  }
  options.algorithm = 2;  // offered for sums of 4 products and more
  try {
    cuda_evaluator(options).run(graph, data, in_batches(4));
    FAIL("an algorithm that is not offered was taken");
  } catch (const Unsupported& error) {
    CHECK(
        std::string(error.what()).find("layer 'second': there is no algorithm 2: cuBLASLt offers algorithms 0 to 1") !=
        std::string::npos);
  }
  CHECK(cuda_algorithms(options, 9, 60, 3).size() == 3);
  CHECK(cuda_algorithms(options, 9, 3, 5) ==
        std::vector<std::string>{"id 21, tile 64x64, stages 32x3",
                                 "id 22, tile 64x64, stages 32x3, K in 2 parts added in the type of the sums"});
  CHECK(live_bytes() == 0);
}

TEST_CASE("the ordered arithmetic is the CPU evaluator's but for its source and, in fp64, its functions") {
  const ScopedVariable path = with_host_module();
  const SummationOrder order = parse_summation_order("blocked:8+fma");
  ArithmeticModel single = ordered_on_device("fp32", "blocked:8+fma").arithmetic();
  CHECK(single.source == "driftbound CUDA kernels");
  single.source = cpu_arithmetic("fp32", order).source;
  CHECK(to_json(single) == to_json(cpu_arithmetic("fp32", order)));
  const ArithmeticModel wide = ordered_on_device("fp64", "blocked:8+fma").arithmetic();
  CHECK(wide.order == order);
  CHECK(wide.accuracy("exp").units == 3.0);
  CHECK(wide.accuracy("sigmoid").units > 6.5);
}

TEST_CASE("wrong options are refused") {
  const ScopedVariable path = with_host_module();
  CHECK_THROWS_AS(cuda_evaluator(cuda_options("fp12", CudaProduct::ordered)), InvalidArgument);
  CHECK_THROWS_AS(cuda_evaluator(cuda_options("fp12", CudaProduct::vendor)), InvalidArgument);
  CHECK_THROWS_AS(cuda_evaluator(cuda_options("tf32", CudaProduct::vendor_pedantic)), InvalidArgument);
  CHECK_THROWS_AS(cuda_evaluator(cuda_options("fp32", CudaProduct::vendor, "unknown")), Unsupported);
}

TEST_CASE("variables that change the vendor's arithmetic are refused, but not where the product is our own") {
  const ScopedVariable path = with_host_module();
  const ScopedVariable variable("DRIFTBOUND_HOST_MODULE_ENVIRONMENT", "NVIDIA_TF32_OVERRIDE=1");
  CHECK_THROWS_WITH_AS(cuda_evaluator({}), doctest::Contains("NVIDIA_TF32_OVERRIDE=1"), InvalidArgument);
  CHECK(ordered_on_device("fp32", "pairwise").arithmetic().name == "fp32");
}

TEST_CASE("a run that recording disturbs is found out") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(49);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 6);
  const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_DISTURB", "1");
  const Evaluator evaluator = cuda_evaluator({});
  CHECK(evaluator.run(graph, data, in_batches(3)).provenance.observer_effect == ObserverEffect::changed);
  RunOptions unchecked;
  unchecked.check_observer_effect = false;
  CHECK(evaluator.run(graph, data, unchecked).provenance.observer_effect == ObserverEffect::not_checked);
}

TEST_CASE("out of memory, wherever it happens, names the layer and releases everything") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(50);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 16);
  int failures = 0;
  for (std::uint64_t bytes = 0; bytes < 16384; bytes += 96) {
    const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_MEMORY", std::to_string(bytes));
    for (const CudaProduct product : {CudaProduct::ordered, CudaProduct::vendor}) {
      try {
        cuda_evaluator(cuda_options("bf16", product)).run(graph, data);
      } catch (const NotAvailable& error) {
        ++failures;
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(message.find("layer '") != std::string::npos);
        CHECK(message.find("free of " + std::to_string(bytes)) != std::string::npos);
        CHECK(message.find("--batch") != std::string::npos);
      }
      CHECK(live_bytes() == 0);
    }
  }
  CHECK(failures > 50);
  CHECK(failures < 330);  // with enough memory it runs
}

TEST_CASE("a device lost at any call ends the run with one sentence and releases everything") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(51);
  const Graph graph = network(random);
  const Inputs data = inputs_for(random, 4);
  for (int calls = 0;; ++calls) {
    const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_LOST_AFTER", std::to_string(calls));
    bool lost = false;
    try {
      cuda_evaluator({}).run(graph, data, in_batches(2));
    } catch (const NotAvailable& error) {
      lost = true;
      const std::string message = error.what();
      CAPTURE(message);
      CHECK(message.find("lost at layer '") != std::string::npos);
      CHECK(message.find("start the program again") != std::string::npos);
    }
    CHECK(live_bytes() == 0);
    if (!lost) {
      CHECK(calls > 100);
      break;
    }
  }
}

TEST_CASE("memory is freed after the last use, not at the end of a batch") {
  const ScopedVariable path = with_host_module();
  Graph graph;
  ValueId value = graph.add_input("x0", ElementType::f32, dimensions({open, 1000}));
  for (int i = 0; i < 50; ++i) value = graph.add_node("neg" + std::to_string(i), op::Neg{}, {value});
  graph.outputs = {value};
  const Tensor<float> x({1, 1000}, std::vector<float>(1000, 1.0f));
  const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_MEMORY", "8000");  // two of the 51 values
  CHECK(cuda_evaluator({}).run(graph, inputs_of<float>({x})).layers.size() == 50);
}

TEST_CASE("progress is told after every batch on a device and can stop the run") {
  const ScopedVariable path = with_host_module();
  std::mt19937_64 random(52);
  const Graph graph = network(random);
  RunOptions run = in_batches(4);
  std::vector<std::int64_t> seen;
  run.progress = [&](std::int64_t done, std::int64_t) {
    seen.push_back(done);
    return done < 8;
  };
  CHECK_THROWS_AS(cuda_evaluator({}).run(graph, inputs_for(random, 10), run), Interrupted);
  CHECK(seen == std::vector<std::int64_t>{4, 8});
  CHECK(live_bytes() == 0);
}

}  // namespace
