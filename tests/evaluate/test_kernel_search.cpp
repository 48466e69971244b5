#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "driftbound/evaluate/kernel_search.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "evaluate/kernel_family.hpp"
#include "linalg/scheduled_sums.hpp"
#include "support/tensor_core.hpp"

namespace {

namespace fs = std::filesystem;
using namespace driftbound;

const fs::path bundled_models = fs::path(DRIFTBOUND_SOURCE_DIR) / "examples/models";

std::vector<float> normal_numbers(std::size_t count, double scale, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(normal(random));
  return numbers;
}

/// x W + c with x [m, k], W [k, n] and a bias: a graph, and a run of it whose results are given.
struct MadeRun {
  std::int64_t m, k, n;
  std::vector<float> x, w, bias;
  Graph graph;
  Trace trace;

  MadeRun(std::int64_t rows, std::int64_t terms, std::int64_t columns, std::mt19937_64& random)
      : m(rows),
        k(terms),
        n(columns),
        x(normal_numbers(static_cast<std::size_t>(m * k), 1.0, random)),
        w(normal_numbers(static_cast<std::size_t>(k * n), 0.1, random)),
        bias(normal_numbers(static_cast<std::size_t>(n), 0.1, random)) {
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {k, ""}});
    const ValueId weight = graph.add_constant("w", StoredTensor::from(Tensor<float>({k, n}, w)));
    const ValueId addend = graph.add_constant("c", StoredTensor::from(Tensor<float>({n}, bias)));
    graph.outputs = {graph.add_node("y", op::Gemm{}, {input, weight, addend})};
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = m;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({m, k}, x)));
  }

  void record(std::vector<float> y) { trace.layers = {{"y", StoredTensor::from(Tensor<float>({m, n}, std::move(y)))}}; }

  /// What a kernel computes, the bias added last.
  std::vector<float> computed_by(const ProductKernel& kernel) const {
    const auto read = [&](std::vector<float> values) {
      for (float& v : values)
        v = static_cast<float>(round_to(static_cast<double>(v), format(kernel.operands), kernel.operand_rounding));
      return values;
    };
    const ProductPlan plan{1, m, n, k, {0}, {0}, k, 1, n, 1};
    const std::vector<float> b = read(w);
    PackedMatrices<float> packed;
    pack_missing<float>(plan, b, packed);
    std::vector<float> y(static_cast<std::size_t>(m * n));
    linalg::multiply_by_kernel(plan, read(x), packed, kernel, 1, y);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % static_cast<std::size_t>(n)];
    return y;
  }

  KernelFinding searched() const {
    KernelSearch search(graph, 0, 0);
    search.add(trace);
    return search.finding();
  }
};

ProductKernel with_unit(FormatId operands, int fraction_bits, int block, std::int64_t run = 0, int sum_bits = 23) {
  ProductKernel kernel;
  kernel.operands = operands;
  TensorCore& unit = kernel.matrix_unit.emplace();
  unit.fraction_bits = fraction_bits;
  unit.block = block;
  unit.sum_bits = sum_bits;
  kernel.dealing.run = run;
  return kernel;
}

ProductKernel chains(const Dealing& dealing, Combination combination, bool fma) {
  ProductKernel kernel;
  kernel.dealing = dealing;
  kernel.combination = combination;
  kernel.fma = fma;
  return kernel;
}

TEST_CASE("every product of the runs recorded on a GPU is explained bit for bit") {
  std::map<std::string, fs::path> models;
  for (const auto& entry : fs::directory_iterator(bundled_models))
    if (entry.path().extension() == ".onnx") models[entry.path().stem().string()] = entry.path();
  std::int64_t layers = 0, numbers = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(DRIFTBOUND_SOURCE_DIR) / "tests/data/gpu")) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".safetensors" || file.find("fp64") != std::string::npos) continue;
    const fs::path model = models.at(file.substr(0, file.find('.')));
    const Graph graph = load_model(model);
    const Trace trace = read_trace(graph, sha256_of_file(model), entry.path());
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      if (!std::holds_alternative<op::Gemm>(graph.nodes[node].op)) continue;
      KernelSearch search(graph, node, 0);
      search.add(slice(graph, batch_layout(graph), trace, 0, trace.samples));
      const KernelFinding found = search.finding();
      CAPTURE(file);
      CAPTURE(graph.nodes[node].name);
      CHECK(found.kernel.has_value());
      CHECK(found.equal_bits == found.compared);
      layers += 1;
      numbers += found.compared;
    }
  }
  MESSAGE(layers, " products, ", numbers, " numbers");
  CHECK(layers >= 112);
}

TEST_CASE("the kernel that computed a run is found among all members" * doctest::test_suite("campaign")) {
  using Kind = Dealing::Kind;
  std::mt19937_64 random(20261129);
  const std::vector<ProductKernel> kernels = {with_unit(FormatId::tf32, 25, 8),
                                              with_unit(FormatId::tf32, 24, 4),
                                              with_unit(FormatId::bf16, 25, 16, 256),
                                              with_unit(FormatId::fp16, 24, 8, 512),
                                              with_unit(FormatId::fp16, 23, 4),
                                              with_unit(FormatId::fp8_e4m3, 13, 32, 128, 13),
                                              chains({}, Combination::sequential, true),
                                              chains({}, Combination::sequential, false),
                                              chains({Kind::contiguous, 1, 384, 1}, Combination::sequential, true),
                                              chains({Kind::balanced, 1, 384, 8}, Combination::sequential, true),
                                              chains({Kind::interleaved, 32, 4, 1}, Combination::halves, true),
                                              chains({Kind::interleaved, 16, 1, 1}, Combination::neighbours, false)};
  for (const std::int64_t k : {1000, 8192}) {
    MadeRun run(4, k, 24, random);
    for (const ProductKernel& kernel : kernels) {
      run.record(run.computed_by(kernel));
      const KernelFinding found = run.searched();
      CAPTURE(describe(kernel, k));
      REQUIRE(found.kernel.has_value());
      CHECK(found.kernel->matrix_unit.has_value() == kernel.matrix_unit.has_value());
      if (kernel.matrix_unit) {
        CHECK(found.kernel->matrix_unit->block == kernel.matrix_unit->block);
        CHECK(found.kernel->matrix_unit->fraction_bits == kernel.matrix_unit->fraction_bits);
      } else {
        CHECK(found.kernel->fma == kernel.fma);
      }
      const bool has_exact_parts = kernel.matrix_unit && kernel.matrix_unit->sum_bits < 23;  // in any order the same
      if (!has_exact_parts) CHECK(found.kernel->combination == kernel.combination);
      CHECK(schedule_of(found.kernel->dealing, k).ends == schedule_of(kernel.dealing, k).ends);
      CHECK(schedule_of(found.kernel->dealing, k).terms == schedule_of(kernel.dealing, k).terms);
      std::string alike;
      for (const ProductKernel& other : found.alike) alike += describe(other, k) + "; ";
      CAPTURE(alike);
      const bool may_be_tf32 =
          kernel.operands == FormatId::fp16;  // alike but for subnormal numbers, which are few here
      CHECK(found.members_left >= 1);
      CHECK(found.members_left <= (has_exact_parts ? 3 : may_be_tf32 ? 2 : 1));
      CHECK(found.compared == 96);
      CHECK(found.estimate_chance_hits < 1e-9);
    }
  }
}

TEST_CASE("numbers that no member gives are not explained") {
  std::mt19937_64 random(3);
  MadeRun run(64, 96, 32, random);
  std::vector<float> y = run.computed_by(with_unit(FormatId::tf32, 25, 8));
  SUBCASE("one number in a thousand has another last bit") {
    for (std::size_t i = 500; i < y.size(); i += 1000) y[i] = std::nextafter(y[i], INFINITY);
  }
  SUBCASE("another order than any of the family's") {
    std::vector<std::size_t> order(static_cast<std::size_t>(run.k));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(run.n), column = i % static_cast<std::size_t>(run.n);
      float sum = 0.0f;
      for (const std::size_t l : order)
        sum = std::fma(run.x[row * order.size() + l], run.w[l * static_cast<std::size_t>(run.n) + column], sum);
      y[i] = sum + run.bias[column];
    }
  }
  run.record(y);
  const KernelFinding found = run.searched();
  CHECK_FALSE(found.kernel.has_value());
  CHECK(found.members_left == 0);
  CHECK(found.equal_bits < found.compared);
  CHECK(found.why_not.empty());
}

TEST_CASE("a product whose edges another kernel computed is explained by both") {
  std::mt19937_64 random(8);
  MadeRun run(16, 64, 48, random);
  std::vector<float> y = run.computed_by(chains({}, Combination::sequential, true));
  const std::vector<float> edges =
      run.computed_by(chains({Dealing::Kind::interleaved, 2, 1, 1}, Combination::sequential, true));
  std::int64_t differing = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool is_edge = i % 48 < 6 && i / 48 < 12;
    differing += is_edge && y[i] != edges[i] ? 1 : 0;
    if (is_edge) y[i] = edges[i];
  }
  run.record(y);
  KernelSearch search(run.graph, 0, 0);
  CHECK_FALSE(search.add(run.trace));  // no member alone
  const KernelFinding found = search.finding();
  REQUIRE(found.kernel.has_value());
  REQUIRE(found.others.size() == 1);
  CHECK(found.kernel->dealing.kind == Dealing::Kind::contiguous);
  CHECK(found.others.front().kernel.dealing.kind == Dealing::Kind::interleaved);
  CHECK(found.others.front().numbers == differing);
  CHECK(found.equal_bits + found.others.front().numbers == found.compared);
  y[500] = std::nextafter(y[500], 0.0f);  // given by neither
  run.record(y);
  CHECK_FALSE(run.searched().kernel.has_value());
}

TEST_CASE("parts of a matrix unit cut no block, as T-21 assumes") {
  for (const std::int64_t k : {100, 616, 1000}) {
    for (const std::int64_t block : {4, 8, 16, 32}) {
      for (const Dealing& dealing : dealings_of(k, block)) {
        std::int64_t steps = 0, first = 0;
        for (const std::size_t end : schedule_of(dealing, k).ends) {
          steps += (static_cast<std::int64_t>(end) - first + block - 1) / block;
          first = static_cast<std::int64_t>(end);
        }
        CHECK(steps == (k + block - 1) / block);
      }
    }
  }
}

TEST_CASE("the place of the addend is found") {
  std::mt19937_64 random(5);
  MadeRun run(6, 130, 16, random);
  const auto computed = [&](AddendPlace place) {
    std::vector<float> y;
    for (std::size_t i = 0; i < 96; ++i) {
      const std::size_t row = i / 16, column = i % 16;
      const auto term = [&](std::size_t l, float sum) {
        return std::fma(run.x[row * 130 + l], run.w[l * 16 + column], sum);
      };
      float sum = place == AddendPlace::chain_start ? run.bias[column] : 0.0f, part = 0.0f;
      if (place == AddendPlace::chain_start) {
        for (std::size_t l = 0; l < 130; ++l) sum = term(l, sum);
      } else {
        sum = run.bias[column];
        for (std::size_t l = 0; l < 130; ++l) {
          part = term(l, part);
          if (l % 64 == 63 || l == 129) sum += std::exchange(part, 0.0f);
        }
      }
      y.push_back(sum);
    }
    return y;
  };
  for (const AddendPlace place : {AddendPlace::chain_start, AddendPlace::before_parts}) {
    run.record(computed(place));
    const KernelFinding found = run.searched();
    REQUIRE(found.kernel.has_value());
    CHECK(found.kernel->addend == place);
  }
}

TEST_CASE("sums that say nothing are left out, and said to be") {
  std::mt19937_64 random(6);
  MadeRun run(2, 8, 16, random);
  run.record(std::vector<float>(32, NAN));
  CHECK(run.searched().why_not == "no sum has finite float32 operands and a finite result");
  std::vector<float> y = run.computed_by(chains({}, Combination::sequential, true));
  y[3] = INFINITY;  // one number of many
  run.record(y);
  const KernelFinding found = run.searched();
  CHECK(found.kernel.has_value());
  CHECK(found.compared == 31);
  KernelSearch cheap(run.graph, 0, 100);
  CHECK_FALSE(cheap.add(run.trace));
  CHECK(cheap.finding().why_not == "sums of 8 terms take long to search");
}

TEST_CASE("an arithmetic takes a kernel that its declaration covers") {
  const ArithmeticModel plain = cpu_arithmetic("fp32", {});
  const ProductKernel lanes = chains({Dealing::Kind::interleaved, 32, 2, 1}, Combination::halves, true);
  CHECK(to_string(with_kernel(plain, lanes, 64).value().order) == "lanes:32x2/halves+fma");
  const ProductKernel blocks = chains({Dealing::Kind::contiguous, 1, 16, 1}, Combination::sequential, false);
  CHECK(to_string(with_kernel(plain, blocks, 64).value().order) == "blocked:16");
  CHECK(to_string(with_kernel(plain, chains({}, Combination::sequential, true), 64).value().order) == "sequential+fma");
  CHECK(with_kernel(plain, blocks, 64).value().evidence == Evidence::measured);
  CHECK_FALSE(with_kernel(plain, with_unit(FormatId::tf32, 25, 8), 64));  // float32 was declared
  ProductKernel from_bias = blocks;
  from_bias.addend = AddendPlace::before_parts;
  CHECK_FALSE(with_kernel(plain, from_bias, 64));
  ArithmeticModel unit = simulated_arithmetic("a100", "tf32", {SummationOrder::Kind::sequential, 0, false});
  const ArithmeticModel measured = with_kernel(unit, with_unit(FormatId::tf32, 25, 8), 64).value();
  CHECK(measured.tensor_core->fraction_bits == 25);
  CHECK(with_kernel(unit, blocks, 64).value().input == FormatId::fp32);  // the unit was bypassed
}

}  // namespace
