#include <doctest/doctest.h>

#include <cmath>
#include <string>

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
  Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false}));

  TanhNetwork() {
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

  Trace promoted(std::size_t node) const {
    return promoted_run(graph, base, node,
                        [&](const Graph& changed, const Inputs& given) { return evaluator.run(changed, given); });
  }
};

std::string refusal(const Graph& graph, const std::string& text) {
  try {
    promoted_node(graph, text);
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
    // What is left of the layer is one rounding of its result.
    CHECK(*changed.rms < 1.2 * *run.rms);
    CHECK(*changed.rms > 0.5 * run.rms_without[node]);
    CHECK(*changed.rms < 1.6 * run.rms_without[node]);
  }
  CHECK(run.rms_without[most_promising(run).front()] < 0.95 * *run.rms);
}

TEST_CASE("Layers to promote are named, and what cannot be is said") {
  TanhNetwork network;
  CHECK(promoted_node(network.graph, "last") == 2);
  CHECK(promoted_node(network.graph, "last:fp64") == 2);
  CHECK(contains(refusal(network.graph, "middle"), "there is no such layer"));
  CHECK(contains(refusal(network.graph, "middle"), "first, act, last"));
  CHECK(contains(refusal(network.graph, "last:bf16"), "LAYER:fp64"));
  network.graph.add_node("fixed", op::Relu{}, {network.graph.nodes[0].inputs[2]});
  CHECK(contains(refusal(network.graph, "fixed"), "depends on no input"));
}
