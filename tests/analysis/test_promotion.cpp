#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/promotion.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::analysis;
using namespace driftbound::test;

namespace {

/// y = W2 tanh(W1 x + b) of 12 numbers, and a run of it in float32.
struct TanhNetwork {
  Graph graph;
  Inputs inputs;
  Trace base;
  Evaluator evaluator;

  explicit TanhNetwork(const char* arithmetic = "fp32")
      : evaluator(cpu_evaluator(cpu_arithmetic(arithmetic, {SummationOrder::Kind::sequential, 0, false}))) {
    const auto numbers = [](Shape shape, double step) {
      Tensor<float> tensor(std::move(shape));
      for (std::size_t i = 0; i < tensor.size(); ++i)
        tensor.values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
      return StoredTensor::from(tensor);
    };
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {12, ""}});
    graph.values[x].has_declared_shape = true;
    const ValueId w = graph.add_constant("w", numbers({12, 9}, 1.7)), b = graph.add_constant("b", numbers({9}, 0.3));
    const ValueId v = graph.add_constant("v", numbers({9, 2}, 2.9));
    const ValueId first = graph.add_node("first", op::Gemm{}, {x, w, b});
    const ValueId act = graph.add_node("act", op::Tanh{}, {first});
    graph.outputs = {graph.add_node("last", op::MatMul{}, {act, v})};
    inputs.tensors.emplace_back("x", numbers({40, 12}, 0.77));
    base = evaluator.run(graph, inputs);
  }

  Trace promoted(std::size_t node, Remedy remedy = Remedy::float64) const {
    const Promotion promotion = {node, remedy};
    return promoted_run(graph, base, promotion, promoted_layer(graph, base, promotion).result,
                        [&](const Graph& changed, const Inputs& given) { return evaluator.run(changed, given); });
  }
};

std::string refusal(const Graph& graph, const std::string& text) {
  try {
    promotion_of(graph, text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A promoted layer is the exact layer of its operands, rounded once, and the layers behind it read that") {
  const TanhNetwork network;
  for (const std::size_t node : {std::size_t{0}, std::size_t{2}}) {
    CAPTURE(node);
    const Trace trace = network.promoted(node);
    REQUIRE(trace.layers.size() == 3);
    CHECK(trace.inputs.tensors.size() == 1);
    const Tensor<double> got = trace.layers[node].output.to_double();
    const Tensor<double> x = node == 0 ? network.inputs.at("x").to_double() : network.base.layers[1].output.to_double();
    const Tensor<double> w = network.graph.value(network.graph.nodes[node].inputs[1]).constant.to_double();
    const std::size_t k = static_cast<std::size_t>(x.shape[1]), n = static_cast<std::size_t>(w.shape[1]);
    int differing = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      long double sum = 0.0L;
      for (std::size_t p = 0; p < k; ++p)
        sum += static_cast<long double>(x.values[i / n * k + p]) * static_cast<long double>(w.values[p * n + i % n]);
      if (node == 0)
        sum += static_cast<long double>(
            network.graph.value(network.graph.nodes[0].inputs[2]).constant.to_double().values[i % n]);
      CHECK(std::abs(static_cast<double>(static_cast<float>(sum)) - got.values[i]) <=
            0x1p-23 * std::abs(got.values[i]));
      differing += static_cast<double>(static_cast<float>(sum)) != got.values[i];
    }
    CHECK(differing == 0);
    CHECK_FALSE(trace.layers[node].output.identical(network.base.layers[node].output));
    CHECK(trace.provenance.program.rfind("driftbound", 0) != 0);  // no run of the declared arithmetic
  }
  const Trace last = network.promoted(2), first = network.promoted(0);
  CHECK(last.layers[0].output.identical(network.base.layers[0].output));
  CHECK_FALSE(first.layers[2].output.identical(network.base.layers[2].output));
}

TEST_CASE("The error without a layer is predicted, and measured near that") {
  const TanhNetwork network;
  DriftOptions options;
  options.target = "last[1]";
  options.attributes = true;
  const TracedRun run = judge_trace_alone(network.graph, network.base, options);
  REQUIRE(run.rms);
  REQUIRE(run.rms_without.size() == 3);
  options.attributes = false;
  for (const std::size_t node : most_promising(run)) {
    CAPTURE(node);
    const TracedRun changed = judge_trace_alone(network.graph, network.promoted(node), options);
    REQUIRE(changed.rms);
    CHECK(changed.rms_without.empty());
    const Promotion promotion = {node, Remedy::float64};
    const std::optional<double> predicted =
        estimate_rms(run, promotion, promoted_layer(network.graph, network.base, promotion).left);
    REQUIRE(predicted);
    CHECK(*changed.rms < 1.2 * *run.rms);
    CHECK(*predicted > 0.75 * *changed.rms);
    CHECK(*predicted < 1.33 * *changed.rms);
  }
}

TEST_CASE(
    "The most promising layers are those with the smallest predicted errors; one that rounds once gains nothing") {
  const TanhNetwork network;
  DriftOptions options;
  options.target = "last[1]";
  options.attributes = true;
  const TracedRun run = judge_trace_alone(network.graph, network.base, options);
  const std::vector<std::size_t> best = most_promising(run);
  REQUIRE_FALSE(best.empty());
  double last = 0.0;
  for (const std::size_t node : best) {
    const Promotion promotion = {node, Remedy::float64};
    const double predicted = *estimate_rms(run, promotion, promoted_layer(network.graph, network.base, promotion).left);
    CHECK(predicted >= last);
    CHECK(predicted < *run.rms);
    last = predicted;
  }
  // The least error without a layer's own is that without a product's, and the rounding of its result stays.
  const double least = *std::min_element(run.rms_without.begin(), run.rms_without.end());
  CHECK(last > least);
}

TEST_CASE("3xTF32 leaves next to nothing of what reading TF32 loses, compensated sums all of it; both are predicted") {
  const TanhNetwork network("tf32");
  DriftOptions options;
  options.target = "last[1]";
  options.attributes = true;
  const TracedRun run = judge_trace_alone(network.graph, network.base, options);
  REQUIRE(run.rms);
  options.attributes = options.judge.tests_readings = false;
  for (const BoundKind kind : {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::adjoint_any_order})
    options.judge.bounds.emplace_back(kind);
  const auto with = [&](std::size_t node, Remedy remedy) {
    CAPTURE(node);
    const TracedRun changed = judge_trace_alone(network.graph, network.promoted(node, remedy), options);
    CHECK(changed.judgement.comparison.layers[node].status != Status::violated);
    const Promotion promotion = {node, remedy};
    const auto left = promoted_layer(network.graph, network.base, promotion).left;
    CHECK(std::abs(*estimate_rms(run, promotion, left) - *changed.rms) < 0.1 * *changed.rms);
    return std::pair(left, *changed.rms);
  };
  for (const std::size_t node : {std::size_t{0}, std::size_t{2}}) {
    const auto [of_tf32, rms_of_tf32] = with(node, Remedy::three_tf32);
    const auto [of_sums, rms_of_sums] = with(node, Remedy::compensated);
    const auto [of_float64, rms_of_float64] = with(node, Remedy::float64);
    CHECK(std::hypot(of_tf32.same, of_tf32.other) < 0x1p-8);
    CHECK(std::abs(of_sums.same - 1.0) < 0.01);
    CHECK(std::abs(rms_of_tf32 - rms_of_float64) < 0.01 * rms_of_float64);
    CHECK(std::abs(rms_of_sums - *run.rms) < 0.01 * *run.rms);
  }
}

namespace {

/// A product of two rows of operands, as a network, and a run of it.
struct OneSum {
  Graph graph;
  Trace base;
  std::vector<double> a, b;

  OneSum(const char* arithmetic, std::vector<float> left, std::vector<float> right)
      : a(left.begin(), left.end()), b(right.begin(), right.end()) {
    const auto n = static_cast<std::int64_t>(a.size());
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {n, ""}});
    graph.values[x].has_declared_shape = true;
    const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({n, 1}, std::move(right))));
    graph.outputs = {graph.add_node("sum", op::MatMul{}, {x, w})};
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, n}, std::move(left))));
    base = cpu_evaluator(cpu_arithmetic(arithmetic, {SummationOrder::Kind::sequential, 0, true})).run(graph, inputs);
  }

  /// The error of a remedy, and T-13 with T-10 (b): operands as read, any order.
  std::pair<double, double> error_and_bound(Remedy remedy) const {
    const double result = promoted_layer(graph, base, {0, remedy}).result.to_double().values[0];
    const Format& read = format(base.arithmetic.input);
    long double exact = 0.0L, lost = 0.0L, terms = 0.0L;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = round_to(a[i], read, Rounding::nearest_even), y = round_to(b[i], read, Rounding::nearest_even);
      exact += static_cast<long double>(a[i]) * b[i];
      lost += std::abs(static_cast<long double>(a[i] - x) * y) + std::abs(static_cast<long double>(a[i]) * (b[i] - y));
      terms += std::abs(static_cast<long double>(x) * y);
    }
    const long double roundings = static_cast<long double>(a.size() - 1) * 0x1p-24L * terms;
    const double bound = static_cast<double>(lost + roundings) + 0.5 * ulp(result, format(FormatId::fp32));
    return {std::abs(static_cast<double>(static_cast<long double>(result) - exact)), bound};
  }
};

}  // namespace

TEST_CASE("Remedies are within the bounds of any order, for sums that cancel and parts of any size (T-142)") {
  std::mt19937_64 random(142);
  const auto number = [&](int binades) {
    const double x = std::ldexp(1.0 + static_cast<double>(random() >> 11) * 0x1p-53,
                                static_cast<int>(random() % static_cast<unsigned>(binades)));
    // Sometimes a number of TF32, or next to one.
    const auto wide = static_cast<float>(x);
    const auto narrow = static_cast<float>(round_to(x, format(FormatId::tf32), Rounding::nearest_even));
    const unsigned kind = static_cast<unsigned>(random() % 4);
    const float chosen = kind == 0 ? narrow : kind == 1 ? std::nextafter(narrow, 100.0F) : wide;
    return random() % 2 == 0 ? chosen : -chosen;
  };
  double closest = 0.0;
  for (int draw = 0; draw < 3000; ++draw) {
    const std::size_t n = 1 + static_cast<std::size_t>(random() % 6);
    std::vector<float> a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) a[i] = number(1 + draw % 20), b[i] = number(1 + draw % 3);
    if (n > 1 && draw % 2 == 0) {  // next to a sum of 0
      a[n - 1] = -a[0];
      b[n - 1] = std::nextafter(b[0], 100.0F);
    }
    for (const auto& [arithmetic, remedy] :
         {std::pair("fp32", Remedy::compensated), std::pair("tf32", Remedy::compensated),
          std::pair("tf32", Remedy::three_tf32)}) {
      const auto [error, bound] = OneSum(arithmetic, a, b).error_and_bound(remedy);
      CAPTURE(draw);
      CHECK(error <= bound);
      closest = std::max(closest, error / bound);
    }
  }
  CHECK(closest > 0.9);
}

TEST_CASE("What a compensated sum of terms that cancel loses is their own rounding, where a plain one loses more") {
  // 4096 + 2^-13 - 4096 + 2^-13 …: products are exact.
  const std::vector<float> a = {4096.0F, 0x1p-13F, -4096.0F, 0x1p-13F, 1.0F, 0x1p-24F, -1.0F}, ones(7, 1.0F);
  const OneSum sum("fp32", a, ones);
  CHECK(sum.base.layers[0].output.to_double().values[0] != 0x1p-12 + 0x1p-24);
  CHECK(promoted_layer(sum.graph, sum.base, {0, Remedy::compensated}).result.to_double().values[0] ==
        0x1p-12 + 0x1p-24);
}

TEST_CASE("Layers to promote are named, and what cannot be is said") {
  TanhNetwork network;
  CHECK(promotion_of(network.graph, "last").node == 2);
  CHECK(promotion_of(network.graph, "last:fp64").node == 2);
  CHECK(promotion_of(network.graph, "last:fp64").remedy == Remedy::float64);
  CHECK(promotion_of(network.graph, "first:3xtf32").remedy == Remedy::three_tf32);
  CHECK(promotion_of(network.graph, "first:compensated").remedy == Remedy::compensated);
  CHECK(contains(refusal(network.graph, "middle"), "there is no such layer"));
  CHECK(contains(refusal(network.graph, "middle"), "first, act, last"));
  CHECK(contains(refusal(network.graph, "last:bf16"), "there is no remedy 'bf16'"));
  CHECK(contains(refusal(network.graph, "last:bf16"), "fp64, 3xtf32, compensated"));
  CHECK(contains(refusal(network.graph, "act:compensated"), "and 'act' is Tanh"));
  const auto refusal_of_run = [&](const Trace& base, const Promotion& promotion) -> std::string {
    try {
      promoted_layer(network.graph, base, promotion);
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "";
  };
  CHECK(contains(refusal_of_run(network.base, {2, Remedy::three_tf32}), "for runs that read them in TF32"));
  const Trace in_float64 = cpu_evaluator(cpu_arithmetic("fp64", {SummationOrder::Kind::sequential, 0, false}))
                               .run(network.graph, network.inputs);
  CHECK(contains(refusal_of_run(in_float64, {2, Remedy::compensated}), "no plain float32 sums"));
  const OneSum tiny("tf32", {0x1p-70F}, {0x1p-40F});
  try {
    promoted_layer(tiny.graph, tiny.base, {0, Remedy::three_tf32});
    FAIL_CHECK("tiny products are refused");
  } catch (const Unsupported& error) {
    CHECK(contains(error.what(), "below 2^-100"));
  }
  network.graph.add_node("fixed", op::Relu{}, {network.graph.nodes[0].inputs[2]});
  CHECK(contains(refusal(network.graph, "fixed"), "depends on no input"));
}
