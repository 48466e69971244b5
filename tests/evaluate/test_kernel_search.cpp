#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/kernel_search.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "evaluate/kernel_family.hpp"
#include "linalg/scheduled_sums.hpp"
#include "support/approach.hpp"
#include "support/lost_numbers.hpp"
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
  kernel.parts.dealing.run = run;
  return kernel;
}

ProductKernel chains(const Dealing& dealing, Combination combination, bool fma) {
  ProductKernel kernel;
  kernel.parts.dealing = dealing;
  kernel.parts.combination = combination;
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
    if (entry.path().extension() != ".safetensors") continue;
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
  CHECK(layers >= 142);
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
      if (!has_exact_parts) CHECK(found.kernel->parts.combination == kernel.parts.combination);
      CHECK(schedule_of(found.kernel->parts, k).ends == schedule_of(kernel.parts, k).ends);
      CHECK(schedule_of(found.kernel->parts, k).terms == schedule_of(kernel.parts, k).terms);
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

ProductKernel blocks_of_lanes(const char* order) {
  const SummationOrder parsed = parse_summation_order(order);
  ProductKernel kernel;
  kernel.fma = parsed.fma;
  kernel.parts = parsed.parts;
  return kernel;
}

void check_same_sums(const ProductKernel& found, const ProductKernel& wanted, std::int64_t k) {
  const SumSchedule a = schedule_of(found.parts, k), b = schedule_of(wanted.parts, k);
  CHECK(a.terms == b.terms);
  CHECK(a.ends == b.ends);
  CHECK(a.joins.list == b.joins.list);
}

TEST_CASE("blocks with lanes inside are found, and nothing else") {
  std::mt19937_64 random(20261130);
  for (const std::int64_t k : {300, 616}) {
    MadeRun run(3, k, 32, random);
    for (const char* order : {"balanced:240:1/lanes:2x1:8+fma", "slices:256/lanes:2x1+fma",
                              "slices:128/lanes:4x1/halves", "balanced:128:8/lanes:8x1/neighbours+fma",
                              "lanes:2x1:16+fma", "lanes:8x1:4:sum:front/fours+fma", "slices:8:4:last/lanes:2x1+fma"}) {
      const ProductKernel kernel = blocks_of_lanes(order);
      run.record(run.computed_by(kernel));
      const KernelFinding found = run.searched();
      CAPTURE(order);
      CAPTURE(k);
      REQUIRE(found.kernel.has_value());
      CAPTURE(describe(*found.kernel, k));
      CHECK(found.others.empty());
      CHECK(found.members_left == 1);
      CHECK(found.kernel->fma == kernel.fma);
      check_same_sums(*found.kernel, kernel, k);
    }
  }
}

TEST_CASE("units of fp16 are found where the first numbers, or all, are read as by tf32") {
  std::mt19937_64 random(20261142);
  MadeRun run(16, 96, 24, random);
  for (std::vector<float>* numbers : {&run.x, &run.w})
    for (float& v : *numbers) v = std::copysign(std::abs(v) + 0.01f, v);  // no subnormal numbers of fp16
  for (const bool has_subnormal : {false, true}) {
    if (has_subnormal) run.w.back() = 0x1.4p-15f;  // read as 2^-14 in a unit of fp16, in the last column alone
    Graph& graph = run.graph;
    for (Value& value : graph.values)
      if (value.name == "w") value.constant = StoredTensor::from(Tensor<float>({run.k, run.n}, run.w));
    run.trace.inputs.tensors = {{"x", StoredTensor::from(Tensor<float>({run.m, run.k}, run.x))}};
    for (const int block : {16, 8, 4}) {
      const ProductKernel kernel = with_unit(FormatId::fp16, 25, block);
      run.record(run.computed_by(kernel));
      const KernelFinding found = run.searched();
      CAPTURE(has_subnormal);
      CAPTURE(block);
      REQUIRE(found.kernel.has_value());
      CHECK(found.kernel->matrix_unit.value().block == block);
      CHECK(found.members_left <= (block == 16 ? 1 : 2));  // a unit of tf32 gives the same sums
      if (block == 16) CHECK(found.kernel->operands == FormatId::fp16);
    }
  }
}

TEST_CASE("slices that are rounded before they are added are found") {
  std::mt19937_64 random(20261201);
  const std::int64_t k = 512;
  MadeRun run(4, k, 32, random);
  for (const FormatId narrow : {FormatId::bf16, FormatId::fp16}) {
    for (const bool of_sums : {false, true}) {
      for (const bool by_unit : {false, true}) {
        ProductKernel kernel = by_unit ? with_unit(narrow, 25, 16, 128) : chains({}, Combination::sequential, true);
        kernel.operands = narrow;
        kernel.parts.dealing = {Dealing::Kind::contiguous, 1, 128, 1};
        kernel.part_format = narrow;
        kernel.rounds_sums_of_parts = of_sums;
        run.record(run.computed_by(kernel));
        const KernelFinding found = run.searched();
        CAPTURE(describe(kernel, k));
        REQUIRE(found.kernel.has_value());
        CAPTURE(describe(*found.kernel, k));
        CHECK(found.kernel->part_format == narrow);
        CHECK(found.kernel->rounds_sums_of_parts == of_sums);
        CHECK(found.members_left <= 24);  // what adds up a slice leaves few traces in so few bits
        check_same_sums(*found.kernel, kernel, k);
        CHECK_FALSE(
            with_kernel(cpu_arithmetic(format(narrow).name, {}), *found.kernel, k));  // parts keep their bits there
      }
    }
  }
}

/// Sums or means of rows of x [m, k]: a graph, and a run of it whose results are given.
struct MadeSums {
  std::int64_t m, k;
  std::vector<float> x;
  Graph graph;
  Trace trace;

  MadeSums(std::int64_t rows, std::int64_t terms, const Op& op, std::mt19937_64& random)
      : m(rows), k(terms), x(normal_numbers(static_cast<std::size_t>(m * k), 1.0, random)) {
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {k, ""}});
    graph.outputs = {graph.add_node("y", op, {input})};
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = m;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({m, k}, x)));
  }

  std::vector<float> summed_by(const ProductKernel& kernel) const {
    const ProductPlan plan{1, m, 1, k, {0}, {0}, k, 1, 1, 1};
    const std::vector<float> ones(static_cast<std::size_t>(k), 1.0f);
    PackedMatrices<float> packed;
    pack_missing<float>(plan, ones, packed);
    std::vector<float> y(static_cast<std::size_t>(m));
    linalg::multiply_by_kernel(plan, x, packed, kernel, 1, y);
    return y;
  }

  KernelFinding searched(std::vector<float> y) {
    trace.layers = {{"y", StoredTensor::from(Tensor<float>({m}, std::move(y)))}};
    KernelSearch search(graph, 0, 0);
    search.add(trace);
    return search.finding();
  }
};

TEST_CASE("the order of sums and means is found" * doctest::test_suite("campaign")) {
  std::mt19937_64 random(20261202);
  for (const std::int64_t k : {300, 1000}) {
    MadeSums sums(40, k, op::ReduceSum{{1}, false}, random), means(40, k, op::ReduceMean{{1}, false}, random);
    for (const char* order :
         {"lanes:1x1", "halved", "cascade:8x4", "cascade:16x4", "cascade:1x1", "lanes:8x1:8:last/neighbours",
          "lanes:32x1/halves", "slices:64", "slices:128/lanes:8x1/neighbours"}) {
      const ProductKernel kernel = blocks_of_lanes(order);
      std::vector<float> y = sums.summed_by(kernel);
      const KernelFinding of_sum = sums.searched(y);
      CAPTURE(order);
      CAPTURE(k);
      REQUIRE(of_sum.kernel.has_value());
      CAPTURE(describe(*of_sum.kernel, k));
      CHECK_FALSE(of_sum.kernel->of_products);
      CHECK(of_sum.members_left == 1);
      CHECK(of_sum.estimate_chance_hits < 1e-9);
      check_same_sums(*of_sum.kernel, kernel, k);
      for (const Scaling scaling : {Scaling::divided, Scaling::multiplied}) {
        std::vector<float> mean = means.summed_by(kernel);
        const auto n = static_cast<float>(k);
        for (float& value : mean) value = scaling == Scaling::divided ? value / n : value * (1.0f / n);
        const KernelFinding of_mean = means.searched(mean);
        REQUIRE(of_mean.kernel.has_value());
        CHECK(of_mean.kernel->scaling == scaling);
        check_same_sums(*of_mean.kernel, kernel, k);
      }
      y[7] = std::nextafter(y[7], 0.0f);
      CHECK_FALSE(sums.searched(y).kernel.has_value());
    }
  }
}

TEST_CASE("sums in an order that the family does not have are not explained") {
  std::mt19937_64 random(20261203);
  MadeSums sums(64, 300, op::ReduceSum{{1}, false}, random);
  std::vector<std::size_t> order(300);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<float> y(64, 0.0f);
  for (std::size_t row = 0; row < y.size(); ++row)
    for (const std::size_t k : order) y[row] += sums.x[row * order.size() + k];
  const KernelFinding found = sums.searched(y);
  CHECK_FALSE(found.kernel.has_value());
  CHECK(found.equal_bits < found.compared);
}

TEST_CASE("numbers that no member gives are not explained") {
  std::mt19937_64 random(3);
  MadeRun run(64, 96, 32, random);
  std::vector<float> y = run.computed_by(with_unit(FormatId::tf32, 25, 8));
  std::int64_t differing = 0, first = -1;
  std::string nearest;
  SUBCASE("one number in a thousand has another last bit") {
    for (std::size_t i = 500; i < y.size(); i += 1000) y[i] = std::nextafter(y[i], INFINITY);
    nearest = describe(with_unit(FormatId::tf32, 25, 8), run.k);
    differing = 2;
    first = 500;
  }
  SUBCASE("numbers among the first that are compared have another last bit") {
    for (const std::size_t i : {0U, 3U, 2047U}) y[i] = std::nextafter(y[i], INFINITY);
    nearest = describe(with_unit(FormatId::tf32, 25, 8), run.k);
    differing = 3;
    first = 0;
  }
  SUBCASE("one of blocks of lanes has another last bit") {
    y = run.computed_by(blocks_of_lanes("slices:64/lanes:2x1+fma"));
    y[777] = std::nextafter(y[777], 0.0f);
    nearest = describe(blocks_of_lanes("slices:64/lanes:2x1+fma"), run.k);
    differing = 1;
    first = 777;
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
  CHECK(found.compared == 64 * 32);
  REQUIRE(found.nearest.has_value());
  CHECK(found.equal_bits == found.compared - found.nearest->differing);
  if (differing == 0) return;
  CHECK(found.nearest->differing == differing);
  CHECK(found.nearest->most_ulps == 1.0);
  CHECK(found.nearest->first == first);
  CHECK(describe(found.nearest->kernel, found.k) == nearest);
  KernelSearch search(run.graph, 0, 0);
  CHECK_FALSE(search.add(run.trace));
  CHECK_FALSE(search.add(run.trace));
  CHECK(search.finding().compared == 2 * 64 * 32);
  CHECK(search.finding().nearest->differing == 2 * differing);
  CHECK(search.finding().nearest->first == first);
}

/// Products of numbers that are stored in bf16, added by a kernel, whose results are stored in bf16 or as they are.
struct Bf16Run {
  MadeRun made;

  Bf16Run(std::int64_t rows, std::int64_t terms, std::int64_t columns, std::mt19937_64& random)
      : made(rows, terms, columns, random) {
    for (std::vector<float>* numbers : {&made.x, &made.w})
      for (float& v : *numbers)
        v = static_cast<float>(round_to(static_cast<double>(v), format(FormatId::bf16), Rounding::nearest_even));
    made.bias.assign(made.bias.size(), 0.0F);
    made.graph = Graph();
    const ValueId input = made.graph.add_input("x", ElementType::bf16, {{-1, "samples"}, {made.k, ""}});
    const ValueId weight = made.graph.add_constant("w", in_bf16({made.k, made.n}, made.w));
    made.graph.outputs = {made.graph.add_node("y", op::MatMul{}, {input, weight})};
    made.trace.inputs.tensors = {{"x", in_bf16({made.m, made.k}, made.x)}};
  }

  static StoredTensor in_bf16(const Shape& shape, const std::vector<float>& values) {
    std::vector<std::byte> bytes;
    for (const float v : values) {
      const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16);
      bytes.push_back(static_cast<std::byte>(bits & 0xff));
      bytes.push_back(static_cast<std::byte>(bits >> 8));
    }
    return {ElementType::bf16, shape, std::move(bytes)};
  }

  KernelFinding found_of(const ProductKernel& kernel, FormatId stored) {
    std::vector<float> y = made.computed_by(kernel);
    for (float& v : y) v = static_cast<float>(round_to(static_cast<double>(v), format(stored), Rounding::nearest_even));
    made.record(std::move(y));
    made.trace.arithmetic.output = stored;
    return made.searched();
  }
};

TEST_CASE("operands that are stored in bf16 are read so, and bounds of float32 take the order found") {
  std::mt19937_64 random(20261139);
  Bf16Run run(16, 96, 24, random);
  const KernelFinding chain = run.found_of(chains({}, Combination::sequential, true), FormatId::fp32);
  REQUIRE(chain.kernel.has_value());
  CHECK(chain.kernel->operands == FormatId::bf16);
  CHECK(chain.tells());
  const std::optional<ArithmeticModel> arithmetic = with_finding(run.made.trace.arithmetic, chain);
  REQUIRE(arithmetic.has_value());
  CHECK(arithmetic->input == FormatId::fp32);
  CHECK(arithmetic->order.kind == SummationOrder::Kind::sequential);
  const KernelFinding unit = run.found_of(with_unit(FormatId::bf16, 25, 16), FormatId::fp32);
  REQUIRE(unit.kernel.has_value());
  CHECK(unit.kernel->operands == FormatId::bf16);
  CHECK(unit.kernel->matrix_unit->block == 16);
}

TEST_CASE("results stored in bf16 tell the kernel where they are many, and say so where they do not") {
  std::mt19937_64 random(20261140);
  for (const bool by_unit : {false, true}) {
    CAPTURE(by_unit);
    const ProductKernel kernel =
        by_unit ? with_unit(FormatId::bf16, 25, 16) : chains({}, Combination::sequential, true);
    Bf16Run many(256, 200, 128, random);
    const KernelFinding found = many.found_of(kernel, FormatId::bf16);
    REQUIRE(found.kernel.has_value());
    CAPTURE(describe(*found.kernel, found.k));
    CHECK(found.kernel->operands == FormatId::bf16);
    if (by_unit || found.members_left == 1) CHECK(found.kernel->matrix_unit.has_value() == by_unit);
    CHECK(found.tells() == (found.members_left == 1));
    CHECK(found.members_left < found.family / 10);  // few numbers lie where roundings of sums tell anything
    Bf16Run few(4, 64, 8, random);
    const KernelFinding open = few.found_of(kernel, FormatId::bf16);
    REQUIRE(open.kernel.has_value());
    CHECK(2 * open.members_left > open.family);
    CHECK_FALSE(open.tells());
    CHECK(open.estimate_chance_hits >= 0.5 * static_cast<double>(open.members_left));
    CHECK_FALSE(with_finding(few.made.trace.arithmetic, open).has_value());
  }
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
  CHECK(search.add(run.trace));
  const KernelFinding found = search.finding();
  REQUIRE(found.kernel.has_value());
  REQUIRE(found.others.size() == 1);
  CHECK(found.kernel->parts.dealing.kind == Dealing::Kind::contiguous);
  CHECK(found.others.front().kernel.parts.dealing.kind == Dealing::Kind::interleaved);
  CHECK(found.others.front().numbers == differing);
  CHECK(found.equal_bits + found.others.front().numbers == found.compared);
  CHECK(to_string(with_finding(run.trace.arithmetic, found).value().order) == "height:63");  // of the one chain
  CHECK_FALSE(with_finding(run.trace.arithmetic, {}));
  y[500] = std::nextafter(y[500], 0.0f);  // given by neither
  run.record(y);
  CHECK_FALSE(run.searched().kernel.has_value());
}

TEST_CASE("a changed number is not explained by another kernel that gives it") {
  std::mt19937_64 random(9);
  MadeRun run(16, 64, 48, random);
  const std::vector<float> y = run.computed_by(chains({}, Combination::sequential, true));
  int given = 0;
  for (const Dealing& dealing :
       {Dealing{Dealing::Kind::interleaved, 2, 1, 1}, Dealing{Dealing::Kind::contiguous, 1, 32, 1},
        Dealing{Dealing::Kind::interleaved, 4, 1, 1}}) {
    const std::vector<float> others = run.computed_by(chains(dealing, Combination::sequential, true));
    for (const std::size_t at : {0u, 77u, 400u, 767u}) {
      CAPTURE(at);
      std::vector<float> changed = y;
      changed[at] = others[at];
      given += changed[at] != y[at] ? 1 : 0;
      run.record(changed);
      if (changed[at] != y[at]) CHECK_FALSE(run.searched().kernel.has_value());
    }
  }
  CHECK(given >= 4);
}

TEST_CASE("parts of a matrix unit cut no block, as T-21 assumes") {
  for (const std::int64_t k : {100, 616, 1000}) {
    for (const std::int64_t block : {4, 8, 16, 32}) {
      for (const DealtTerms& dealt : dealings_of(k, block)) {
        std::int64_t steps = 0, first = 0;
        for (const std::size_t end : schedule_of(dealt.front(), k).ends) {
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

TEST_CASE("a matrix unit's chain that starts from the bias is found, and made again") {
  std::mt19937_64 random(20261141);
  const auto k = std::size_t{200}, n = std::size_t{24};
  MadeRun run(6, 200, 24, random);
  const auto read = [](float v) {
    return static_cast<float>(round_to(static_cast<double>(v), format(FormatId::tf32), Rounding::nearest_even));
  };
  const test::TensorCoreUnit unit{25, 8, -126, 23};
  std::vector<float> y;
  for (std::size_t i = 0; i < 6 * n; ++i)
    y.push_back(test::tensor_core_chain(
        unit, run.bias[i % n], 200,
        [&](std::int64_t l) { return read(run.x[i / n * k + static_cast<std::size_t>(l)]); },
        [&](std::int64_t l) { return read(run.w[static_cast<std::size_t>(l) * n + i % n]); }));
  run.record(y);
  const KernelFinding found = run.searched();
  REQUIRE(found.kernel.has_value());
  CHECK(found.members_left == 1);
  CHECK(found.kernel->addend == AddendPlace::chain_start);
  CHECK(found.kernel->matrix_unit.value().block == 8);
  const ProductPlan plan{1, 6, 24, 200, {0}, {0}, 200, 1, 24, 1};
  std::vector<float> a = run.x, b = run.w, addends, again(y.size());
  for (std::vector<float>* numbers : {&a, &b})
    for (float& v : *numbers) v = read(v);
  for (std::size_t i = 0; i < y.size(); ++i) addends.push_back(run.bias[i % n]);
  PackedMatrices<float> packed;
  pack_missing<float>(plan, b, packed);
  linalg::multiply_by_kernel(plan, a, packed, *found.kernel, 1, again, addends);
  CHECK(again == y);
}

TEST_CASE("sums that say nothing are left out, and said to be") {
  std::mt19937_64 random(6);
  MadeRun run(2, 8, 16, random);
  run.record(std::vector<float>(32, NAN));
  CHECK(run.searched().why_not == "no sum has finite float32 operands and a finite result");
  run.trace.arithmetic = cpu_arithmetic("fp64", {});
  CHECK(run.searched().why_not == "no sum has finite operands and a finite result");
  run.trace.arithmetic = cpu_arithmetic("fp32", {});
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

TEST_CASE("kernels of float64 products, sums and means are found") {
  std::mt19937_64 random(20261130);
  std::normal_distribution<double> normal;
  const std::int64_t m = 12, k = 100, n = 9;
  Tensor<double> x({m, k}), w({k, n}), bias({n});
  for (Tensor<double>* one : {&x, &w, &bias})
    for (double& value : one->values) value = normal(random);
  const auto run_of = [&](const Op& op, const std::vector<Tensor<double>>& constants, const Shape& shape,
                          const std::vector<double>& y) {
    std::pair<Graph, Trace> made;
    std::vector<ValueId> operands = {made.first.add_input("x", ElementType::f64, {{-1, "N"}, {k, ""}})};
    for (const Tensor<double>& constant : constants)
      operands.push_back(made.first.add_constant("c" + std::to_string(operands.size()), StoredTensor::from(constant)));
    made.first.outputs = {made.first.add_node("y", op, operands)};
    made.second.arithmetic = cpu_arithmetic("fp64", {});
    made.second.samples = m;
    made.second.inputs.tensors.emplace_back("x", StoredTensor::from(x));
    made.second.layers = {{"y", StoredTensor::from(Tensor<double>(shape, y))}};
    return made;
  };
  const auto found_in = [](const std::pair<Graph, Trace>& made) {
    KernelSearch search(made.first, 0, 0);
    search.add(made.second);
    return search.finding();
  };
  std::vector<double> product, sums, means;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double lanes[4] = {};
      for (std::int64_t l = 0; l < k; ++l) {
        const double a = x.values[static_cast<std::size_t>(i * k + l)],
                     b = w.values[static_cast<std::size_t>(l * n + j)];
        lanes[l % 4] = l < 4 ? a * b : std::fma(a, b, lanes[l % 4]);
      }
      product.push_back(((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + bias.values[static_cast<std::size_t>(j)]);
    }
    double sum = 0.0;
    for (std::int64_t l = 0; l < k; ++l) sum += x.values[static_cast<std::size_t>(i * k + l)];
    sums.push_back(sum);
    means.push_back(sum / static_cast<double>(k));
  }
  const KernelFinding of_product = found_in(run_of(op::Gemm{}, {w, bias}, {m, n}, product));
  REQUIRE(of_product.kernel.has_value());
  CHECK(describe(*of_product.kernel, k) ==
        "fp64, fused multiply-adds, K in 4 lanes of 1 product in turn added neighbour to neighbour");
  CHECK(of_product.equal_bits == m * n);
  CHECK(of_product.members_left == 1);
  CHECK(to_string(with_kernel(cpu_arithmetic("fp64", {}), *of_product.kernel, k).value().order) ==
        "lanes:4x1/neighbours+fma");
  CHECK_FALSE(with_kernel(cpu_arithmetic("fp32", {}), *of_product.kernel, k));
  const KernelFinding of_sums = found_in(run_of(op::ReduceSum{{1}, false}, {}, {m}, sums));
  REQUIRE(of_sums.kernel.has_value());
  CHECK(describe(*of_sums.kernel, k) == "numbers as they are, in one chain");
  const KernelFinding of_means = found_in(run_of(op::ReduceMean{{1}, false}, {}, {m}, means));
  REQUIRE(of_means.kernel.has_value());
  CHECK(of_means.kernel->scaling == Scaling::divided);
  product[17] = std::nextafter(product[17], 0.0);
  const KernelFinding changed = found_in(run_of(op::Gemm{}, {w, bias}, {m, n}, product));
  CHECK_FALSE(changed.kernel.has_value());
  CHECK(changed.nearest->differing == 1);
  CHECK(changed.nearest->most_ulps == 1.0);
  CHECK(changed.nearest->first == 17);
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
  const ProductKernel nested = blocks_of_lanes("slices:16/lanes:2x1/halves+fma");
  CHECK(to_string(with_kernel(plain, nested, 64).value().order) == "slices:16/lanes:2x1/halves+fma");
  const ArithmeticModel measured = with_kernel(unit, with_unit(FormatId::tf32, 25, 8), 64).value();
  CHECK(measured.tensor_core->fraction_bits == 25);
  CHECK(with_kernel(unit, blocks, 64).value().input == FormatId::fp32);  // the unit was bypassed
}

/// Rows x [m, n], and results that a kernel of rows made of them: a graph and its run.
struct MadeRows {
  std::int64_t m, n;
  std::vector<float> x, scale, bias;
  Graph graph;
  Trace trace;

  MadeRows(std::int64_t rows, std::int64_t length, const Op& op, bool has_bias, std::mt19937_64& random)
      : m(rows),
        n(length),
        x(normal_numbers(static_cast<std::size_t>(m * n), 2.0, random)),
        scale(normal_numbers(static_cast<std::size_t>(n), 1.0, random)),
        bias(normal_numbers(static_cast<std::size_t>(n), 1.0, random)) {
    for (float& one : x) one += 0.75f;
    std::vector<ValueId> inputs = {graph.add_input("x", ElementType::f32, {{-1, "samples"}, {n, ""}})};
    const bool is_norm = std::holds_alternative<op::LayerNormalization>(op) ||
                         std::holds_alternative<op::RMSNormalization>(op) ||
                         std::holds_alternative<op::InstanceNormalization>(op);
    if (is_norm) {
      inputs.push_back(graph.add_constant("g", StoredTensor::from(Tensor<float>({n}, scale))));
      if (has_bias) inputs.push_back(graph.add_constant("b", StoredTensor::from(Tensor<float>({n}, bias))));
    }
    graph.outputs = {graph.add_node("y", op, std::move(inputs))};
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = m;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({m, n}, x)));
  }

  KernelFinding searched(std::vector<float> y) {
    const Shape shape = y.size() == static_cast<std::size_t>(m) ? Shape{m, 1} : Shape{m, n};
    trace.layers = {{"y", StoredTensor::from(Tensor<float>(shape, std::move(y)))}};
    KernelSearch search(graph, 0, 0);
    const bool gives_all = search.add(trace);
    CHECK(gives_all == search.finding().kernel.has_value());
    return search.finding();
  }

  /// row(first number of a row, first result of it) for all rows.
  template <class Row>
  std::vector<float> made(const Row& row) const {
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < y.size(); i += static_cast<std::size_t>(n)) row(&x[i], &y[i]);
    return y;
  }
};

/// The sum of term(0) … term(n - 1) in eight lanes that are added half to half, the order of PyTorch's softmax.
template <class Term>
float in_eight_lanes(std::int64_t n, const Term& term) {
  float lanes[8];
  for (std::int64_t i = 0; i < n; ++i) lanes[i % 8] = i < 8 ? term(i) : lanes[i % 8] + term(i);
  for (int half = 4; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

/// The kernel that comes nearest, one ulp off in `differing` numbers from `first` on.
void check_nearest(const KernelFinding& found, const std::string& kernel, std::int64_t differing, std::int64_t first) {
  REQUIRE(found.nearest.has_value());
  CHECK(describe(found.nearest->kernel, found.k) == kernel);
  CHECK(found.nearest->differing == differing);
  CHECK(found.nearest->most_ulps == 1.0);
  CHECK(found.nearest->first == first);
  CHECK(found.equal_bits == found.compared - differing);
}

TEST_CASE("the order of a softmax's sum is found, with what makes its terms") {
  std::mt19937_64 random(20261210);
  MadeRows rows(24, 200, op::Softmax{-1}, false, random);
  for (const bool in_lanes : {false, true}) {
    for (const bool divides : {false, true}) {
      std::vector<float> y = rows.made([&](const float* x, float* out) {
        const float largest = *std::max_element(x, x + rows.n);
        std::vector<float> e(static_cast<std::size_t>(rows.n));
        for (std::size_t i = 0; i < e.size(); ++i)
          e[i] = static_cast<float>(std::exp(static_cast<double>(x[i] - largest)));
        float sum = 0.0f;
        for (const float one : e) sum += one;
        if (in_lanes) sum = in_eight_lanes(rows.n, [&](std::int64_t i) { return e[static_cast<std::size_t>(i)]; });
        for (std::size_t i = 0; i < e.size(); ++i) out[i] = divides ? e[i] / sum : e[i] * (1.0f / sum);
      });
      const KernelFinding found = rows.searched(y);
      REQUIRE(found.kernel.has_value());
      CAPTURE(describe(*found.kernel, rows.n));
      CHECK(found.compared == rows.m * rows.n);
      CHECK(found.members_left <= 4);  // this library's exp is rounded correctly almost always
      CHECK(found.estimate_chance_hits < 1e-9);
      CHECK(found.kernel->row->exponential == Exponential::rounded);
      CHECK(found.kernel->row->result == (divides ? RowSteps::Result::quotient : RowSteps::Result::product));
      check_same_sums(*found.kernel, blocks_of_lanes(in_lanes ? "lanes:8x1/halves" : "lanes:1x1"), rows.n);
      CHECK_FALSE(with_kernel(rows.trace.arithmetic, *found.kernel, rows.n));
      y[1234] = std::nextafter(y[1234], 1.0f);  // one bit of 4800 numbers
      const KernelFinding changed = rows.searched(y);
      CHECK_FALSE(changed.kernel.has_value());
      check_nearest(changed, describe(*found.kernel, rows.n), 1, 1234);
    }
  }
}

/// The float32 sum of exponentials that a row [first, last) makes, less `most`, in eight lanes; 0 where minus infinite.
float sum_of_exponentials(const float* first, const float* last, float most) {
  return in_eight_lanes(
      last - first, [&](std::int64_t i) { return static_cast<float>(std::exp(static_cast<double>(first[i] - most))); });
}

TEST_CASE("one row does not tell the order of its sum: all of its numbers are made of one") {
  std::mt19937_64 random(20261215);
  MadeRows rows(1, 500, op::Softmax{-1}, false, random);
  const std::vector<float> y = rows.made([&](const float* x, float* out) {
    const float most = *std::max_element(x, x + rows.n), sum = sum_of_exponentials(x, x + rows.n, most);
    for (std::int64_t i = 0; i < rows.n; ++i)
      out[i] = static_cast<float>(std::exp(static_cast<double>(x[i] - most))) / sum;
  });
  const KernelFinding found = rows.searched(y);
  REQUIRE(found.kernel.has_value());
  CHECK(found.members_left > 1);
  CHECK(found.estimate_chance_hits >= 1.0);
  CHECK_FALSE(found.tells());
}

TEST_CASE("logarithms of softmax and of sums of exponentials are found") {
  std::mt19937_64 random(20261213);
  const auto log_of = [](float x) { return static_cast<float>(std::log(static_cast<double>(x))); };
  for (const bool less_both : {false, true}) {
    for (const bool is_masked : {false, true}) {
      MadeRows rows(100, 200, op::LogSoftmax{-1}, false, random);
      for (std::size_t i = 0; is_masked && i < rows.x.size(); i += 3) rows.x[i] = -INFINITY;
      rows.trace.inputs.tensors.front().second = StoredTensor::from(Tensor<float>({rows.m, rows.n}, rows.x));
      std::vector<float> y = rows.made([&](const float* x, float* out) {
        const float most = *std::max_element(x, x + rows.n), log = log_of(sum_of_exponentials(x, x + rows.n, most));
        for (std::int64_t i = 0; i < rows.n; ++i) out[i] = less_both ? x[i] - (most + log) : (x[i] - most) - log;
      });
      const KernelFinding found = rows.searched(y);
      REQUIRE(found.kernel.has_value());
      CAPTURE(describe(*found.kernel, rows.n));
      CHECK(found.compared == rows.m * rows.n);
      CHECK(found.kernel->row->exponential == Exponential::rounded);
      CHECK(found.kernel->row->result == (less_both ? RowSteps::Result::less_maximum : RowSteps::Result::less_log));
      check_same_sums(*found.kernel, blocks_of_lanes("lanes:8x1/halves"), rows.n);
      y[1235] = std::nextafter(y[1235], 1.0f);
      check_nearest(rows.searched(y), describe(*found.kernel, rows.n), 1, 1235);
    }
  }
  MadeRows rows(600, 90, op::ReduceLogSumExp{{1}}, false, random);
  std::vector<float> y;
  for (auto x = rows.x.begin(); x != rows.x.end(); x += rows.n) {
    const float most = *std::max_element(x, x + rows.n);
    y.push_back(log_of(sum_of_exponentials(&*x, &*x + rows.n, most)) + most);
  }
  const KernelFinding found = rows.searched(y);
  REQUIRE(found.kernel.has_value());
  CHECK(found.compared == 600);
  CHECK(
      describe(*found.kernel, rows.n) ==
      "numbers as they are, terms in 8 lanes of 1 term in turn added half to half; exp and log correctly rounded, the "
      "maximum added to the log");
  y[77] = std::nextafter(y[77], 100.0f);
  check_nearest(rows.searched(y), describe(*found.kernel, rows.n), 1, 77);
}

TEST_CASE("the sum of a masked softmax is found; rows that are masked as a whole have none") {
  std::mt19937_64 random(20261214);
  op::MaskedSoftmax masked{-1, {64}, std::vector<bool>(64)};
  for (std::size_t i = 0; i < 64; ++i) masked.kept[i] = i % 5 != 2;
  MadeRows rows(100, 64, masked, false, random);
  std::vector<float> y = rows.made([&](const float* x, float* out) {
    std::vector<float> seen(x, x + rows.n);
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (!masked.kept[i]) seen[i] = -INFINITY;
    const float most = *std::max_element(seen.begin(), seen.end());
    const float sum = sum_of_exponentials(seen.data(), seen.data() + seen.size(), most);
    for (std::size_t i = 0; i < seen.size(); ++i)
      out[i] = static_cast<float>(std::exp(static_cast<double>(seen[i] - most))) / sum;
  });
  const KernelFinding found = rows.searched(y);
  REQUIRE(found.kernel.has_value());
  check_same_sums(*found.kernel, blocks_of_lanes("lanes:8x1/halves"), rows.n);
  CHECK(found.estimate_chance_hits < 1e-9);
  CHECK(found.compared == 6400);
  y[130] = 0x1p-149f;  // element 2 of a row, which is masked
  check_nearest(rows.searched(y), describe(*found.kernel, rows.n), 1, 130);

  MadeRows none(4, 64, op::Softmax{-1}, false, random);
  none.trace.inputs.tensors.front().second =
      StoredTensor::from(Tensor<float>({4, 64}, std::vector<float>(256, -INFINITY)));
  CHECK(none.searched(std::vector<float>(256, 0.0f)).why_not == "no row has finite float32 numbers and results");
}

TEST_CASE("the moments of a norm are found, and the steps behind them" * doctest::test_suite("campaign")) {
  using Steps = RowSteps;
  std::mt19937_64 random(20261211);
  MadeRows rows(20, 150, op::LayerNormalization{-1, 1e-5}, true, random);
  const auto n = static_cast<float>(rows.n);
  const auto finish = [&](Steps::Result result, const float* x, float mean, float variance, float* y) {
    const float root = std::sqrt(variance + 1e-5f), inverse = 1.0f / root;
    for (std::int64_t i = 0; i < rows.n; ++i) {
      const float g = rows.scale[static_cast<std::size_t>(i)], b = rows.bias[static_cast<std::size_t>(i)];
      switch (result) {
        case Steps::Result::quotient:
          y[i] = (x[i] - mean) / root * g + b;
          break;
        case Steps::Result::product:
          y[i] = std::fma((x[i] - mean) * inverse, g, b);
          break;
        case Steps::Result::shifted:
          y[i] = (x[i] * inverse + -inverse * mean) * g + b;
          break;
        case Steps::Result::folded:
          y[i] = std::fma(x[i], inverse * g, std::fma(-(inverse * g), mean, b));
          break;
        case Steps::Result::folded_rounded:
          y[i] = std::fma(x[i], inverse * g, b - inverse * g * mean);
          break;
        case Steps::Result::scaled:
          y[i] = (x[i] - mean) * (inverse * g) + b;
          break;
        default:
          FAIL("no result of a norm");
      }
    }
  };
  for (const Steps::Sums sums : {Steps::Sums::two_passes, Steps::Sums::one_pass, Steps::Sums::running}) {
    for (const Steps::Result result : {Steps::Result::quotient, Steps::Result::product, Steps::Result::shifted,
                                       Steps::Result::folded, Steps::Result::folded_rounded, Steps::Result::scaled}) {
      std::vector<float> y = rows.made([&](const float* x, float* out) {
        float mean = 0.0f, variance = 0.0f;
        if (sums == Steps::Sums::running) {
          for (std::int64_t i = 0; i < rows.n; ++i) {
            const float delta = x[i] - mean;
            mean += delta / static_cast<float>(i + 1);
            variance += delta * (x[i] - mean);
          }
          variance /= n;
        } else if (sums == Steps::Sums::two_passes) {
          mean = in_eight_lanes(rows.n, [&](std::int64_t i) { return x[i]; }) / n;
          variance = in_eight_lanes(rows.n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / n;
        } else {
          for (std::int64_t i = 0; i < rows.n; ++i) mean += x[i];
          for (std::int64_t i = 0; i < rows.n; ++i) variance = i > 0 ? std::fma(x[i], x[i], variance) : x[0] * x[0];
          mean /= n;
          variance = std::fma(-mean, mean, variance / n);
        }
        finish(result, x, mean, variance, out);
      });
      const KernelFinding found = rows.searched(y);
      REQUIRE(found.kernel.has_value());
      CAPTURE(describe(*found.kernel, rows.n));
      CHECK(found.members_left <= 2);  // squares that are fused or not may give the same variances
      CHECK(found.compared == rows.m * rows.n);
      CHECK(found.kernel->row->sums == sums);
      CHECK(found.kernel->row->result == result);
      CHECK(found.kernel->fma == (sums == Steps::Sums::one_pass));
      y[2977] = y[977] = std::nextafter(y[977], 100.0f);  // in the last row and in one before
      const KernelFinding changed = rows.searched(y);
      CHECK_FALSE(changed.kernel.has_value());
      CHECK(changed.nearest->differing == 2);
      CHECK(changed.nearest->first == 977);
      CHECK(changed.equal_bits == changed.compared - 2);
    }
  }
}

TEST_CASE("a mean of squares in a norm is found; rows that say nothing are not searched") {
  std::mt19937_64 random(20261212);
  MadeRows rows(80, 96, op::RMSNormalization{-1, 1e-6}, false, random);
  const std::vector<float> y = rows.made([&](const float* x, float* out) {
    const float mean = in_eight_lanes(rows.n, [&](std::int64_t i) { return x[i] * x[i]; }) * (1.0f / 96.0f);
    const float inverse = 1.0f / std::sqrt(mean + 1e-6f);
    for (std::int64_t i = 0; i < rows.n; ++i) out[i] = x[i] * inverse * rows.scale[static_cast<std::size_t>(i)];
  });
  const KernelFinding found = rows.searched(y);
  REQUIRE(found.kernel.has_value());
  CHECK(found.members_left == 1);
  CHECK(found.kernel->row->sums == RowSteps::Sums::squares);
  CHECK(found.kernel->scaling == Scaling::multiplied);
  CHECK(describe(*found.kernel, rows.n) ==
        "numbers as they are, terms in 8 lanes of 1 term in turn added half to half, times the rounded reciprocal of "
        "the number of terms; mean of squares, times the reciprocal of the root, not fused");
  CHECK(rows.searched(std::vector<float>(y.size(), NAN)).why_not == "no row has finite float32 numbers and results");
  MadeRows long_rows(2, 1024, op::Softmax{-1}, false, random);
  long_rows.trace.layers = {{"y", StoredTensor::from(Tensor<float>({2, 1024}, long_rows.x))}};
  KernelSearch cheap(long_rows.graph, 0, std::int64_t{1} << 21);
  CHECK_FALSE(cheap.add(long_rows.trace));
  CHECK(cheap.finding().why_not == "rows of 1024 numbers take long to search");
}

/// A convolution of x [2, 6, 7, 5] with weights [8, 3, 3, 2] in two groups, with strides, dilations and padding, computed by
/// loops: `together` channels at one place of the window after each other, then the next place.
struct MadeConvolution {
  static constexpr std::int64_t channels = 3, rows = 4, columns = 6;
  std::vector<float> x, w, bias;
  Graph graph;
  Trace trace;

  explicit MadeConvolution(std::mt19937_64& random)
      : x(normal_numbers(2 * 6 * 7 * 5, 1.0, random)),
        w(normal_numbers(8 * channels * 3 * 2, 0.3, random)),
        bias(normal_numbers(8, 0.3, random)) {
    op::Conv conv;
    conv.geometry.strides = {2, 1};
    conv.geometry.dilations = {1, 2};
    conv.geometry.pads_before = {1, 2};
    conv.geometry.pads_after = {1, 1};
    conv.groups = 2;
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {6, ""}, {7, ""}, {5, ""}});
    const ValueId weight = graph.add_constant("w", StoredTensor::from(Tensor<float>({8, channels, 3, 2}, w)));
    const ValueId addend = graph.add_constant("c", StoredTensor::from(Tensor<float>({8}, bias)));
    graph.outputs = {graph.add_node("y", conv, {input, weight, addend})};
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = 2;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({2, 6, 7, 5}, x)));
  }

  std::vector<float> computed(std::int64_t together) const {
    std::vector<float> y;
    for (std::int64_t sample = 0; sample < 2; ++sample)
      for (std::int64_t m = 0; m < 8; ++m)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            float sum = 0.0f;
            for (std::int64_t first = 0; first < channels; first += together)
              for (std::int64_t p = 0; p < 6; ++p)
                for (std::int64_t c = first; c < std::min(first + together, channels); ++c) {
                  const std::int64_t row = 2 * i - 1 + p / 2, column = j - 2 + 2 * (p % 2);
                  if (row < 0 || row >= 7 || column < 0 || column >= 5) continue;
                  const std::int64_t from = ((sample * 6 + m / 4 * channels + c) * 7 + row) * 5 + column;
                  sum = std::fma(x[static_cast<std::size_t>(from)],
                                 w[static_cast<std::size_t>((m * channels + c) * 6 + p)], sum);
                }
            y.push_back(sum + bias[static_cast<std::size_t>(m)]);
          }
    return y;
  }

  KernelFinding searched(std::vector<float> y) {
    trace.layers = {{"y", StoredTensor::from(Tensor<float>({2, 8, rows, columns}, std::move(y)))}};
    KernelSearch search(graph, 0, 0);
    search.add(trace);
    return search.finding();
  }
};

TEST_CASE("the order of a convolution's products is found") {
  std::mt19937_64 random(20261213);
  MadeConvolution made(random);
  for (const std::int64_t together : {std::int64_t{1}, all_channels}) {
    std::vector<float> y = made.computed(together);
    const KernelFinding found = made.searched(y);
    REQUIRE(found.kernel.has_value());
    CAPTURE(describe(*found.kernel, 18));
    CHECK(found.others.empty());
    CHECK(found.k == 18);
    CHECK(found.compared == static_cast<std::int64_t>(y.size()));
    CHECK((found.kernel->channels_together == 1) == (together == 1));
    CHECK(schedule_of(found.kernel->parts, 18).joins.chains == 1);
    const ArithmeticModel measured = with_kernel(made.trace.arithmetic, *found.kernel, 18).value();
    CHECK(to_string(measured.order) == "height:17");
    y[100] = std::nextafter(y[100], 100.0f);
    CHECK_FALSE(made.searched(y).kernel.has_value());
  }
}

/// The rows from `first_in_lanes` on are added in two lanes, those before it in one chain.
struct SearchedSums : test::LostNumbers {
  static constexpr std::int64_t rows = 48;

  explicit SearchedSums(std::int64_t first_in_lanes)
      : LostNumbers(rows, [=](std::int64_t row) -> std::size_t { return row < first_in_lanes ? 1 : 2; }) {}

  KernelFinding searched() const {
    KernelSearch search(graph, 0, 0);
    CHECK(search.add(trace));
    return search.finding();
  }

  /// The largest share of a bound that an error uses, in the arithmetic that was found.
  double share_of(BoundKind kind, const KernelFinding& finding) const {
    Trace measured = trace;
    measured.arithmetic = with_finding(trace.arithmetic, finding).value();
    const Bounds bounds = bound(graph, measured, {});
    const auto& local = bounds.layers.front().local;
    const auto found =
        std::find_if(local.begin(), local.end(), [&](const BoundResult& one) { return one.kind == kind; });
    REQUIRE(found != local.end());
    double share = 0.0;
    for (std::size_t row = 0; row < errors.size(); ++row) {
      CHECK_FALSE(!(errors[row] <= found->values.values[row]));
      share = std::max(share, errors[row] / found->values.values[row]);
    }
    return share;
  }
};

TEST_CASE("bounds by the kernels that were found hold, and are approached") {
  const SearchedSums chain(SearchedSums::rows), mixed(24);
  const KernelFinding of_chain = chain.searched(), of_both = mixed.searched();
  CHECK(to_string(with_finding(chain.trace.arithmetic, of_chain).value().order).starts_with("sequential"));
  CHECK_APPROACH("T-170", chain.share_of(BoundKind::running, of_chain), 0.9);
  REQUIRE(of_both.others.size() == 1);
  CHECK(to_string(with_finding(mixed.trace.arithmetic, of_both).value().order) == "height:63");
  CHECK(mixed.share_of(BoundKind::order_aware, of_both) > 0.9);
}

}  // namespace
