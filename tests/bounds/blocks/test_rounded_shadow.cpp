#include <doctest/doctest.h>

#include "bounds/adjoint/narrow_steps.hpp"
#include "driftbound/bounds/rounded_shadow.hpp"
#include "support/approach.hpp"
#include "support/rounded_checks.hpp"

using namespace checks;

namespace {

bool says_nothing_is_fused(const BoundResult& bound) {
  return bound.condition.find("(A-09)") != std::string::npos;
}

/// tanh(a) - tanh(c) of numbers that a product stores.
Graph difference_of_tanhs() {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, 2});
  const auto operands = [&](const char* name, const Shape& shape, std::vector<float> values) {
    return graph.add_constant(name, StoredTensor::from(Tensor<float>(shape, std::move(values))));
  };
  const ValueId copied = graph.add_node("z", op::MatMul{}, {x, operands("identity", {2, 2}, {1, 0, 0, 1})});
  const ValueId tanh = graph.add_node("tanh", op::Tanh{}, {copied});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {tanh, operands("difference", {2, 1}, {1, -1})})};
  return graph;
}

/// The same in bfloat16, float32 inside: what tanh reads is stored, or still in the accumulator.
std::vector<float> stored_values(const std::vector<float>& x, bool is_fused) {
  const auto stored = [](float value) { return naive::as_operand(value, FormatId::bf16); };
  std::vector<float> z, tanh;
  for (const float value : x) {
    z.push_back(stored(value));
    tanh.push_back(stored(Scalar<float>::tanh(is_fused ? value : z.back())));
  }
  return {z[0], z[1], tanh[0], tanh[1], stored(tanh[0] - tanh[1])};
}

Trace bf16_trace(const Graph& graph, const std::vector<float>& x, const std::vector<float>& run) {
  Trace trace;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 2}, x)));
  trace.arithmetic = arithmetic_of({FormatId::fp32, FormatId::bf16, false});
  trace.provenance = foreign_provenance;
  trace.samples = 1;
  std::size_t next = 0;
  for (const Node& node : graph.nodes) {
    const std::size_t size = node.name == "y" ? 1 : 2;
    const std::vector<float> values(run.begin() + static_cast<std::ptrdiff_t>(next),
                                    run.begin() + static_cast<std::ptrdiff_t>(next + size));
    const Shape shape = {1, static_cast<std::int64_t>(size)};
    trace.layers.push_back({node.name, StoredTensor::from(Tensor<float>(shape, values))});
    next += size;
  }
  return trace;
}

/// Bounds of x W, W or x cast to bfloat16 by the model, both read in TF32.
LayerBounds bounds_behind_a_cast(bool of_weights, std::vector<BoundRequest> requests) {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, 2});
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 1}, {0.1f, 0.7f})));
  const ValueId cast = graph.add_node("cast", op::Cast{ElementType::bf16}, {of_weights ? w : x});
  const ValueId y = graph.add_node("y", op::MatMul{}, {of_weights ? x : cast, of_weights ? cast : w});
  graph.outputs = {y};
  const auto rounded = [](float value) { return naive::as_operand(value, FormatId::bf16); };
  const std::vector<float> operand = of_weights ? std::vector{0.1f, 0.7f} : std::vector{0.3f, 0.9f};
  const Shape shape = of_weights ? Shape{2, 1} : Shape{1, 2};
  Trace trace;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 2}, {0.3f, 0.9f})));
  trace.arithmetic = arithmetic_of({FormatId::tf32, FormatId::fp32, false});
  trace.samples = 1;
  trace.layers.push_back(
      {"cast", StoredTensor::from(Tensor<float>(shape, {rounded(operand[0]), rounded(operand[1])}))});
  trace.layers.push_back({"y", StoredTensor::from(Tensor<float>({1, 1}, {0.66f}))});
  BoundOptions options;
  options.requests = std::move(requests);
  return bound(graph, trace, options).layers.back();
}

}  // namespace

TEST_CASE("roundings of numbers within a radius are in their hull, and what is made of them holds (T-76)" *
          doctest::test_suite("campaign")) {
  const RoundedTallies tallies = check_roundings(20'000 * test_multiplier(), 761);
  CHECK(tallies.checked > 300'000);
  CHECK(tallies.outside_hull == 0);
  INFO(tallies.roundings.first_violation, tallies.radii.first_violation, tallies.remainders.first_violation);
  CHECK(tallies.violations() == 0);
  CHECK_EXACT("T-76", tallies.roundings.utilisation == 1.0);
  CHECK(tallies.radii.utilisation == 1.0);
  CHECK(tallies.remainders.utilisation == 1.0);
}

TEST_CASE("a directed rounding that stops at the largest number is as far off as that is (T-76)") {
  const bounds::NarrowRounding fp16{&format(FormatId::fp16), Rounding::toward_zero, false, false};
  const double x = 66000.0, radius = 1717.0;
  const bounds::Hull hull = bounds::hull_rounded(x, radius, fp16);
  CHECK(hull.lower == 64256.0);
  CHECK(hull.upper == 65504.0);
  const bounds::RoundedElement y = bounds::rounded_element(x, radius, hull, bounds::largest_rounding(x + radius, fp16));
  CHECK(y.slope == 0.0);
  CHECK(y.remainder == 624.0);
  CHECK(bounds::largest_rounding(65504.0, fp16) == Magnitude(32.0));
}

TEST_CASE("two products that read one number may take it for 0 now and for what it is then (T-12, T-76)") {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, 2});
  const auto product = [&](const std::string& name) {
    const ValueId one = graph.add_constant(name + "/w", StoredTensor::from(Tensor<float>({2, 2}, {1, 0, 0, 1})));
    return graph.add_node(name, op::MatMul{}, {x, one});
  };
  const ValueId first = product("first"), second = product("second");
  graph.outputs = {graph.add_node("y", op::Sub{}, {first, second})};
  Generator generator(763);
  const NarrowRun run{FormatId::fp16, FormatId::fp32, true};
  const NarrowCheck check(graph, Tensor<double>({1, 2}, {0x1p-15, -0x1p-15}), run);
  const NarrowTallies tallies = check.held(40, generator);
  INFO(tallies.first_violation());
  CHECK(tallies.violations() == 0);
  CHECK(tallies.bounds.utilisation > 0.24);
}

TEST_CASE("two columns that read one number may take it for 0 now and for what it is then (T-76)") {
  const auto held = [](FormatId input, FormatId output, const std::vector<float>& x, const std::vector<float>& w) {
    const NarrowTallies tallies = check_readers({input, output, true}, x, w, 40);
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    CHECK(tallies.bounds.utilisation > 0.09);
  };
  const float rounds_to_normal = 0x1p-14f * (1.0f - 0x1p-20f);
  for (const float x : {0x1p-15f, rounds_to_normal, -rounds_to_normal}) held(FormatId::fp16, FormatId::fp32, {x}, {});
  held(FormatId::tf32, FormatId::fp32, {0x1p-126f * (1.0f - 0x1p-20f)}, {});
  held(FormatId::fp32, FormatId::bf16, {0x1p-127f}, {});
  // 2^-15, but as far as is known anything about it.
  held(FormatId::fp16, FormatId::fp32, {1024.0f, -1024.0f, 0x1p-10f}, {1.0f, 1.0f, 0x1p-5f});
}

TEST_CASE("norms of rounded rows hold (T-76)") {
  const Tally norms = check_rounded_norms(5'000, 762);
  CHECK(norms.violations == 0);
  CHECK(norms.utilisation > 0.8);
}

TEST_CASE("what is known exactly is rounded exactly, and what may be either is neither") {
  const bounds::NarrowRounding even{&format(FormatId::bf16), Rounding::nearest_even, false, false};
  const bounds::NarrowRounding open{&format(FormatId::bf16), Rounding::nearest_away, true, false};
  const double tie = 1.0 + 0x1p-8;
  CHECK(bounds::hull_rounded(tie, 0.0, even).lower == 1.0);
  CHECK(bounds::hull_rounded(tie, 0.0, even).upper == 1.0);
  CHECK(bounds::hull_rounded(tie, 0.0, open).lower == 1.0);
  CHECK(bounds::hull_rounded(tie, 0.0, open).upper == 1.0 + 0x1p-7);
  CHECK(bounds::hull_rounded(tie, 0x1p-40, even).upper == 1.0 + 0x1p-7);
  CHECK(bounds::hull_rounded(1.0, 0x1p-9, even).upper == 1.0);

  const bounds::RoundedElement healed = bounds::rounded_element(1.0 + 0x1p-10, 0x1p-12, {1.0, 1.0}, Magnitude(0x1p-8));
  CHECK(healed.centre == 1.0);
  CHECK(healed.radius == 0.0);
  CHECK(healed.slope == 0.0);
  CHECK_FALSE(healed.is_ambiguous);

  const bounds::NarrowRounding fp16{&format(FormatId::fp16), Rounding::nearest_even, false, false};
  CHECK(std::isinf(bounds::hull_rounded(65519.0, 1.0, fp16).upper));
  const bounds::RoundedElement lost =
      bounds::rounded_element(65519.0, 1.0, bounds::hull_rounded(65519.0, 1.0, fp16), Magnitude(16.0));
  CHECK(std::isinf(lost.radius));
}

TEST_CASE("every run in narrow formats stays within the rounded shadow's radii and bounds (T-76)" *
          doctest::test_suite("campaign")) {
  NarrowTallies all;
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    const NarrowTallies tallies =
        check_narrow_networks({"gemm", block, "gemm", "tanh", "matmul"}, narrow_runs(), 2 * test_multiplier(), 763);
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    all += tallies;
  }
  CHECK(all.values.checked + all.bounds.checked > 100'000);
  CHECK(all.ambiguous > 0);
  MESSAGE("judged " << all.values.checked + all.bounds.checked << ", ambiguous roundings " << all.ambiguous
                    << ", radii used to " << all.values.utilisation << ", bounds to " << all.bounds.utilisation);
  CHECK(all.bounds.utilisation > 0.999);
}

TEST_CASE("there is no rounded shadow where nothing is rounded to a narrow format") {
  Generator generator(764);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  CHECK_FALSE(bounds::narrowed_program(Program(graph, {{2, 4}}, std::nullopt), machine).has_value());
}

TEST_CASE("values known to be in a format are not rounded to it again") {
  Generator generator(765);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  const auto roundings = [&](FormatId input, FormatId output) {
    const bounds::Machine machine = bounds::machine_of(arithmetic_of({input, output, false}));
    const auto program = bounds::narrowed_program(Program(graph, {{2, 4}}, std::nullopt), machine);
    return std::count_if(program->steps().rounding.begin(), program->steps().rounding.end(),
                         [](const auto& rounding) { return rounding.has_value(); });
  };
  CHECK(roundings(FormatId::bf16, FormatId::fp32) == 4);  // two factors each
  CHECK(roundings(FormatId::bf16, FormatId::bf16) ==
        5);  // x, two weights, two sums; not Relu, nor the second product's
  CHECK(roundings(FormatId::fp16, FormatId::bf16) == 6);  // that of the second product is another format
}

TEST_CASE("the sign of every run is right or wrong where its enclosure and the exact one say so") {
  CHECK(sign_of_runs({1.0, 2.0}, {0.5, 0.6}) == SignVerdict::right);
  CHECK(sign_of_runs({-2.0, -1.0}, {-0.6, -0.5}) == SignVerdict::right);
  CHECK(sign_of_runs({-2.0, -1.0}, {0.5, 0.6}) == SignVerdict::wrong);
  CHECK(sign_of_runs({1.0, 2.0}, {-0.6, -0.5}) == SignVerdict::wrong);
  CHECK(sign_of_runs({0.0, 2.0}, {0.5, 0.6}) == SignVerdict::open);
  CHECK(sign_of_runs({1.0, 2.0}, {-0.1, 0.6}) == SignVerdict::open);
  CHECK(sign_of_runs(Interval::whole(), {0.5, 0.6}) == SignVerdict::open);
  CHECK(name_of(SignVerdict::wrong) == "wrong");
}

TEST_CASE("a matrix unit that may read its operands as they are makes roundings of operands a condition") {
  Generator generator(766);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  ArithmeticModel arithmetic = arithmetic_of({FormatId::tf32, FormatId::fp32, false});
  arithmetic.tensor_core = TensorCore{24, 4};
  const bounds::Setting setting = setting_of(arithmetic);
  const auto program = bounds::narrowed_program(Program(graph, {{2, 4}}, std::nullopt), setting.machine);
  bounds::OperandCache operands;
  const bounds::RoundedShadow rounded =
      bounds::rounded_shadow_of(*program, {network_inputs(1.0, false, generator)}, {{}}, setting, operands);
  CHECK(std::any_of(rounded.deviation.conditions.begin(), rounded.deviation.conditions.end(),
                    [](const std::string& condition) { return condition.find("A-07") != std::string::npos; }));
}

TEST_CASE(
    "a run that fuses past a stored result leaves the rounded shadow, as its condition says, and no other bound") {
  const Graph graph = difference_of_tanhs();
  const std::vector<float> x = {1.436033010482788f, 0.356493204832077f};
  const Tensor<double> given({1, 2}, {static_cast<double>(x[0]), static_cast<double>(x[1])});
  const Real exact = exact_values(graph, given)[graph.outputs[0]].values[0];
  for (const bool is_fused : {false, true}) {
    CAPTURE(is_fused);
    const std::vector<float> run = stored_values(x, is_fused);
    BoundOptions options;
    options.requests = {BoundKind::adjoint_any_order, BoundKind::adjoint_probabilistic, BoundKind::adjoint_statistical,
                        BoundKind::rounded_shadow};
    const Bounds bounds = bound(graph, bf16_trace(graph, x, run), options);
    const std::vector<BoundResult>& of_output = bounds.layers.back().accumulated;
    const double error = abs(Real(static_cast<double>(run.back())) - exact).to_double();
    for (const BoundKind kind :
         {BoundKind::adjoint_any_order, BoundKind::adjoint_probabilistic, BoundKind::adjoint_statistical}) {
      CAPTURE(name_of(kind));
      const BoundResult* bound = find_bound(of_output, kind);
      CHECK(error <= bound->values.values[0]);
      CHECK_FALSE(says_nothing_is_fused(*bound));
    }
    const BoundResult* rounded = find_bound(of_output, BoundKind::rounded_shadow);
    CHECK((error <= rounded->values.values[0]) == !is_fused);
    CHECK(says_nothing_is_fused(*rounded));
    CHECK(std::count_if(bounds.assumptions.begin(), bounds.assumptions.end(), [](const std::string& condition) {
            return condition.find("(A-09)") != std::string::npos;
          }) == 1);
  }
}

TEST_CASE("what is made of a Cast stands on the Cast being made (A-09)") {
  const std::vector<BoundKind> kinds = {BoundKind::rounded_shadow, BoundKind::adjoint_statistical,
                                        BoundKind::adjoint_any_order};
  for (const bool of_weights : {false, true}) {
    const LayerBounds bounds = bounds_behind_a_cast(of_weights, {kinds.begin(), kinds.end()});
    CAPTURE(of_weights);
    for (const BoundKind kind : kinds) REQUIRE(find_bound(bounds.accumulated, kind) != nullptr);
    CHECK(says_nothing_is_fused(*find_bound(bounds.accumulated, BoundKind::rounded_shadow)));
    CHECK(says_nothing_is_fused(*find_bound(bounds.accumulated, BoundKind::adjoint_statistical)) == of_weights);
    CHECK_FALSE(says_nothing_is_fused(*find_bound(bounds.accumulated, BoundKind::adjoint_any_order)));
  }
}
