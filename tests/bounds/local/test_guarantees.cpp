#include <doctest/doctest.h>

#include <limits>

#include "driftbound/bounds/theorems.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "support/small_networks.hpp"
#include "support/special_numbers.hpp"

using namespace checks;

namespace {

const SummationOrder blocked{SummationOrder::Kind::blocked, 8, true};

/// x -> MatMul -> Tanh -> MatMul, recorded as zeros.
struct Chain {
  Graph graph;
  Trace trace;
};

Chain tanh_chain(const ArithmeticModel& arithmetic) {
  Chain chain;
  ValueId value = add_fixed_input(chain.graph, "x", ElementType::f32, {1, 2});
  const auto constant = [&](const char* name) {
    return chain.graph.add_constant(name, StoredTensor::from(Tensor<float>{{2, 2}, {1.0f, 0.5f, 0.25f, 1.0f}}));
  };
  value = chain.graph.add_node("first", op::MatMul{}, {value, constant("w1")});
  value = chain.graph.add_node("squash", op::Tanh{}, {value});
  chain.graph.outputs = {chain.graph.add_node("last", op::MatMul{}, {value, constant("w2")})};
  chain.trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>{{1, 2}, {0.0f, 0.0f}}));
  chain.trace.arithmetic = arithmetic;
  chain.trace.provenance = own_provenance;
  chain.trace.samples = 1;
  for (const char* name : {"first", "squash", "last"}) {
    chain.trace.layers.push_back({name, StoredTensor::from(Tensor<float>{{1, 2}, {0.0f, 0.0f}})});
  }
  return chain;
}

Guarantee guarantee_of(const std::vector<BoundResult>& list, BoundKind kind) {
  const BoundResult* result = find_bound(list, kind);
  REQUIRE(result != nullptr);
  CHECK(result->condition.empty() == (result->guarantee == Guarantee::proven));
  CHECK_FALSE(result->theorem.empty());
  return result->guarantee;
}

}  // namespace

TEST_CASE("IEEE arithmetic is proven; a measured function makes its layer and everything behind it conditional") {
  const Chain chain = tanh_chain(cpu_arithmetic("fp32", blocked));
  const Bounds result = bound(chain.graph, chain.trace);
  REQUIRE(result.layers.size() == 3);
  CHECK(guarantee_of(result.layers[0].local, BoundKind::componentwise) == Guarantee::proven);
  CHECK(guarantee_of(result.layers[0].local, BoundKind::order_aware) == Guarantee::proven);
  CHECK(guarantee_of(result.layers[0].accumulated, BoundKind::forward) == Guarantee::proven);
  CHECK(guarantee_of(result.layers[1].local, BoundKind::componentwise) == Guarantee::conditional);
  CHECK(guarantee_of(result.layers[2].local, BoundKind::componentwise) == Guarantee::proven);
  CHECK(guarantee_of(result.layers[2].accumulated, BoundKind::forward) == Guarantee::conditional);
  REQUIRE(result.assumptions.size() == 1);
  CHECK(result.assumptions[0].find("tanh") != std::string::npos);
  CHECK(result.assumptions[0].find("measured") != std::string::npos);
}

TEST_CASE("correctly rounded functions leave everything proven") {
  const Chain chain = tanh_chain(cpu_arithmetic("fp64", blocked));
  const Bounds result = bound(chain.graph, chain.trace);
  CHECK(guarantee_of(result.layers[2].accumulated, BoundKind::forward) == Guarantee::proven);
  CHECK(result.assumptions.empty());
}

TEST_CASE("one documented unit is no correct rounding") {
  const FunctionAccuracy correct{"sqrt", 1.0, Evidence::documented, "IEEE 754, correctly rounded"};
  const FunctionAccuracy within_an_ulp{"sqrt", 1.0, Evidence::documented, "a manual: within u |f|"};
  CHECK(is_correctly_rounded(correct));
  CHECK_FALSE(is_correctly_rounded(within_an_ulp));
  for (const char* source : {"a manual: within u |f|, not correctly rounded", "correctly rounded in most cases", ""})
    CHECK_FALSE(is_correctly_rounded({"sqrt", 1.0, Evidence::documented, source}));
  for (const FunctionAccuracy& entry : function_library("cuda").functions) {
    CAPTURE(entry.function);
    CHECK(is_correctly_rounded(entry) == (entry.function == "sqrt"));
  }
}

TEST_CASE("an arithmetic that is only assumed makes every bound conditional") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp64", blocked);
  arithmetic.evidence = Evidence::assumed;
  const Chain chain = tanh_chain(arithmetic);
  const Bounds result = bound(chain.graph, chain.trace);
  for (const LayerBounds& layer : result.layers) {
    CHECK(guarantee_of(layer.local, BoundKind::componentwise) == Guarantee::conditional);
    CHECK(guarantee_of(layer.accumulated, BoundKind::forward) == Guarantee::conditional);
  }
}

TEST_CASE("only a run of the own CPU evaluator is proven, whatever another trace says of itself") {
  const auto is_proven = [](const Chain& chain) {
    const Bounds result = bound(chain.graph, chain.trace);
    CHECK(guarantee_of(result.layers[0].accumulated, BoundKind::forward) ==
          guarantee_of(result.layers[0].local, BoundKind::componentwise));
    return guarantee_of(result.layers[0].local, BoundKind::componentwise) == Guarantee::proven;
  };
  const auto claimed = [&](const auto& change) {
    Chain chain = tanh_chain(cpu_arithmetic("fp32", blocked));
    change(chain.trace);
    return is_proven(chain);
  };
  CHECK(claimed([](Trace&) {}));
  CHECK(claimed([](Trace& trace) { trace.arithmetic = arithmetic_from_json(to_json(trace.arithmetic)); }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.provenance = foreign_provenance; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.provenance = {}; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.provenance.backend = "cuda"; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.name = "fp31"; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.input = FormatId::bf16; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.accumulator = FormatId::fp64; }));
  CHECK(claimed([](Trace& trace) { trace.arithmetic.output = FormatId::bf16; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.output = FormatId::fp64; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.rounding = Rounding::up; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.order = {}; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.flushes_subnormals = true; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.functions[0].units = 0.0; }));
  CHECK_FALSE(claimed([](Trace& trace) { trace.arithmetic.source = "hearsay"; }));
}

TEST_CASE("the condition of a foreign trace names its arithmetic, its evidence and its source") {
  Chain chain = tanh_chain(cpu_arithmetic("fp32", {}));
  chain.trace.provenance = foreign_provenance;
  chain.trace.arithmetic.source = "a manual";
  const Bounds result = bound(chain.graph, chain.trace);
  CHECK(find_bound(result.layers[0].local, BoundKind::componentwise)->condition ==
        "the arithmetic of the run is fp32 in order unknown, as documented by a manual");
}

TEST_CASE("a foreign sigmoid may overflow inside") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  for (FunctionAccuracy& entry : arithmetic.functions) entry = {entry.function, 9.0, Evidence::assumed, "a guess"};
  const Tensor<double> x{{6}, {-89.0, -100.0, -104.0, -95.0, -88.0, -87.0}};
  const auto sigmoid = [](double at) { return Real(1.0) / (Real(1.0) + Real(-at).apply(mpfr_exp)); };
  Tensor<double> y{{6}, {0.0, 0.0, 0.0, 0.0}};
  for (const std::size_t i : {4u, 5u})
    y.values.push_back(static_cast<double>(sigmoid(x.values[i]).to_float(MPFR_RNDN)));
  OneNode one = one_node(op::Sigmoid{}, {x}, y, arithmetic);
  one.trace.provenance = foreign_provenance;
  const LayerBounds layer = bounds_of(one);
  Tallies tallies;
  for (std::size_t i = 0; i < x.size(); ++i) tallies.add(layer, i, y.values[i], sigmoid(x.values[i]));
  CHECK_MESSAGE(tallies.violations() == 0, tallies.first_violation());
  const std::vector<double>& values = find_bound(layer.local, BoundKind::componentwise)->values.values;
  for (std::size_t i = 0; i < 5; ++i) CHECK(values[i] <= 3.0 * 0x1p-126);
  CHECK(values[5] <= 0x1p-145);
}

TEST_CASE("a subnormal constant of an op may be lost where results are flushed") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", blocked);
  arithmetic.flushes_subnormals = true;
  const double lost = 1e-39, size = 1e38, product = 0.1;
  const Tensor<double> one{{1, 1}, {1.0}}, large{{1, 1}, {size}};
  const auto check = [&](const Op& op, const std::vector<Tensor<double>>& operands, double computed, double exact,
                         double most = 1.0001) {
    CAPTURE(name_of(op));
    const OneNode node = one_node(op, operands, {operands[0].shape, {computed}}, arithmetic);
    const std::vector<double> bounds = find_bound(bounds_of(node).local, BoundKind::componentwise)->values.values;
    CHECK(bounds[0] >= (exact - computed) * (1.0 - 0x1p-40));
    CHECK(bounds[0] <= (exact - computed) * most);
  };
  check(op::LeakyRelu{-lost}, {{{1}, {-size}}}, 0.0, product);
  check(op::Clip{lost, 1.0}, {{{1}, {-1.0}}}, 0.0, lost);
  check(op::Gemm{lost, 1.0, false, false}, {large, one}, 0.0, product, 2.01);  // alpha or a scaled factor may be lost
  check(op::Gemm{1.0, lost, false, false}, {one, one, large}, 1.0, 1.0 + product);
}

TEST_CASE("folklore stands at products and at graph outputs, and is called heuristic") {
  const Chain chain = tanh_chain(float_arithmetic(blocked));
  const Bounds result = bound(chain.graph, chain.trace);
  for (const BoundKind kind : {BoundKind::seed_gamma, BoundKind::seed_gamma_note}) {
    CHECK(find_bound(result.layers[0].local, kind)->guarantee == Guarantee::heuristic);
    CHECK(find_bound(result.layers[1].local, kind) == nullptr);
  }
  for (const BoundKind kind : {BoundKind::seed_sum_gamma, BoundKind::seed_sum_gamma_note}) {
    CHECK(find_bound(result.layers[2].accumulated, kind)->guarantee == Guarantee::heuristic);
    CHECK(find_bound(result.layers[0].accumulated, kind) == nullptr);
  }
}

TEST_CASE("folklore counts convolutions as products, and says nothing where there is no product") {
  const auto folklore_of = [](const Op& op, std::vector<Tensor<double>> operands, const Tensor<double>& computed) {
    const Bounds result = [&] {
      const OneNode node = one_node(op, operands, computed, cpu_arithmetic("fp32", blocked));
      return bound(node.graph, node.trace);
    }();
    const BoundResult* found = find_bound(result.layers[0].accumulated, BoundKind::seed_sum_gamma);
    return found == nullptr ? std::vector<double>() : found->values.values;
  };
  CHECK(folklore_of(op::Tanh{}, {{{1}, {0.5}}}, {{1}, {0.46}}).empty());
  const std::vector<double> convolved =
      folklore_of(op::Conv{}, {{{1, 1, 3}, {1.0, 2.0, 3.0}}, {{1, 1, 3}, {1.0, 1.0, 1.0}}}, {{1, 1, 1}, {6.0}});
  REQUIRE(convolved.size() == 1);
  CHECK(convolved[0] >= 6.0 * 3.0 * 0x1p-24);
}

TEST_CASE("an unknown order gives no order-aware bound") {
  const Chain chain = tanh_chain(float_arithmetic({}));
  for (const LayerBounds& layer : bound(chain.graph, chain.trace).layers) {
    CHECK(find_bound(layer.local, BoundKind::order_aware) == nullptr);
  }
}

TEST_CASE("layers that depend on no input have bounds too, and hand their errors on") {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1});
  const ValueId third = graph.add_constant("third", StoredTensor::from(Tensor<double>{{1}, {1.0 / 3.0}}));
  const ValueId folded = graph.add_node("folded", op::Neg{}, {third});
  graph.outputs = {graph.add_node("sum", op::Add{}, {x, folded})};
  Trace trace;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>{{1}, {0.0f}}));
  trace.arithmetic = cpu_arithmetic("fp32", blocked);
  trace.provenance = own_provenance;
  trace.samples = 1;
  const Tensor<float> rounded{{1}, {-static_cast<float>(1.0 / 3.0)}};
  trace.layers = {{"folded", StoredTensor::from(rounded)}, {"sum", StoredTensor::from(rounded)}};
  const Bounds result = bound(graph, trace);
  const double error = std::abs(1.0 / 3.0 - static_cast<double>(static_cast<float>(1.0 / 3.0)));
  CHECK(find_bound(result.layers[0].accumulated, BoundKind::forward)->values.values[0] >= error);
  CHECK(find_bound(result.layers[0].local, BoundKind::componentwise)->values.values[0] >= error);
  CHECK(find_bound(result.layers[1].local, BoundKind::componentwise)->values.values[0] == 0.0);
  CHECK(find_bound(result.layers[1].accumulated, BoundKind::forward)->values.values[0] >= error);
}

TEST_CASE("values that are not finite have no bound, and neither has what they reach") {
  const double nan = std::nan("");
  const auto bound_of = [](const Op& op, const std::vector<Tensor<double>>& operands, double y) {
    const OneNode one = one_node(op, operands, {{1}, {y}}, cpu_arithmetic("fp32", blocked));
    const LayerBounds layer = bounds_of(one);
    CHECK(find_bound(layer.accumulated, BoundKind::forward)->values.values[0] == infinity);
    return find_bound(layer.local, BoundKind::componentwise)->values.values[0];
  };
  CHECK(bound_of(op::Exp{}, {{{1}, {100.0}}}, infinity) == infinity);
  CHECK(bound_of(op::Exp{}, {{{1}, {-infinity}}}, 0.0) == infinity);
  CHECK(bound_of(op::Relu{}, {{{1}, {nan}}}, 0.0) == infinity);
  CHECK(bound_of(op::Add{}, {{{1}, {1.0}}, {{1}, {nan}}}, nan) == infinity);
  CHECK(bound_of(op::MatMul{}, {{{1, 1}, {infinity}}, {{1}, {0.0}}}, 0.0) == infinity);
}

TEST_CASE("a difference inside an op has a bound up to where its rounding may overflow") {
  const auto bound_of_masked = [](double score) {
    const OneNode one = one_node(op::MaskedSoftmax{-1, {1, 2}, {true, true}},
                                 {{{1, 2}, {-static_cast<double>(std::numeric_limits<float>::max()), score}}},
                                 {{1, 2}, {0.0, 1.0}}, cpu_arithmetic("fp32", blocked));
    return find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values[0];
  };
  CHECK(bound_of_masked(2.0) < 1e-30);
  CHECK(bound_of_masked(1e32) == infinity);
}

TEST_CASE("a trace that does not fit the graph is refused by name") {
  Chain chain = tanh_chain(float_arithmetic(blocked));
  chain.trace.layers[1].output = StoredTensor::from(Tensor<float>{{1, 3}, {0.0f, 0.0f, 0.0f}});
  CHECK_THROWS_WITH_AS(bound(chain.graph, chain.trace), doctest::Contains("squash"), ShapeMismatch);
  chain.trace.layers.pop_back();
  CHECK_THROWS_AS(bound(chain.graph, chain.trace), ShapeMismatch);
}

TEST_CASE("a function without an accuracy is refused by name") {
  ArithmeticModel arithmetic = float_arithmetic(blocked);
  arithmetic.functions.clear();
  const Chain chain = tanh_chain(arithmetic);
  CHECK_THROWS_WITH_AS(bound(chain.graph, chain.trace), doctest::Contains("tanh"), Unsupported);
}

TEST_CASE("threads change nothing") {
  Generator generator(61);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "tanh", "attention", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  Trace trace;
  trace.arithmetic = float_arithmetic(blocked);
  trace.samples = 2;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(convert<float>(network_inputs(1.0, false, generator))));
  const std::vector<Shape> shapes = infer_shapes(graph, {{2, 4}});
  for (const Node& node : graph.nodes) {
    trace.layers.push_back({node.name, StoredTensor::from(Tensor<float>(shapes[node.output]))});
  }
  BoundOptions options;
  options.threads = 3;
  const Bounds one = bound(graph, trace), three = bound(graph, trace, options);
  for (std::size_t n = 0; n < one.layers.size(); ++n) {
    CHECK(one.layers[n].accumulated[0].values.values == three.layers[n].accumulated[0].values.values);
  }
}
