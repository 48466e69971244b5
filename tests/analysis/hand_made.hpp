#pragma once

#include <vector>

#include "analysis/comparison.hpp"
#include "analysis/report.hpp"
#include "driftbound/num/ball.hpp"

/// One layer of two sums on three samples, with everything made by hand, so that a test can set each number.
struct HandMade {
  driftbound::Graph graph;
  driftbound::BatchLayout layout;
  driftbound::Trace trace;
  driftbound::Reference accumulated, local;
  driftbound::Bounds bounds;

  explicit HandMade(std::vector<float> computed = {1, 2, 3, 4, 5, 6}) {
    using namespace driftbound;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {4, ""}});
    const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({4, 2})));
    graph.outputs = {graph.add_node("layer", op::MatMul{}, {x, w})};
    layout = {true, {{1, 4}}};
    trace.samples = 3;
    trace.layers.push_back({"layer", StoredTensor::from(Tensor<float>({3, 2}, computed))});
    Tensor<Ball> exact({3, 2});
    for (std::size_t i = 0; i < computed.size(); ++i) exact.values[i] = exact_ball(static_cast<double>(computed[i]));
    accumulated.layers = {exact};
    accumulated.rungs[128] = 6;
    local = accumulated;
    LayerBounds layer;
    layer.fan_in = 4;
    layer.local.push_back(make_bound(BoundKind::componentwise, Guarantee::proven));
    layer.local.push_back(make_bound(BoundKind::seed_gamma, Guarantee::heuristic));
    layer.accumulated.push_back(make_bound(BoundKind::forward, Guarantee::proven));
    layer.accumulated.push_back(make_bound(BoundKind::seed_sum_gamma, Guarantee::heuristic));
    layer.kappa = Tensor<double>({3, 2}, {1, 2, 3, 4, 5, 6});
    bounds.layers = {layer};
  }

  /// Another output behind the first one, with the same numbers and bounds.
  void add_second_layer(const driftbound::Op& op) {
    graph.outputs.push_back(graph.add_node("second", op, {graph.outputs[0]}));
    trace.layers.push_back({"second", trace.layers[0].output});
    for (driftbound::Reference* reference : {&accumulated, &local}) reference->layers.push_back(reference->layers[0]);
    bounds.layers.push_back(bounds.layers[0]);
  }

  static driftbound::BoundResult make_bound(driftbound::BoundKind kind, driftbound::Guarantee guarantee) {
    driftbound::BoundResult bound;
    bound.kind = kind;
    bound.guarantee = guarantee;
    bound.theorem = "T-10";
    bound.values = driftbound::Tensor<double>({3, 2}, std::vector<double>(6, 1.0));
    return bound;
  }

  driftbound::analysis::Comparison compare(double threshold = 0.5, const std::vector<std::string>& scalars = {}) const {
    std::vector<driftbound::analysis::Scalar> parsed;
    for (const std::string& text : scalars) parsed.push_back(driftbound::analysis::parse_scalar(graph, text));
    driftbound::analysis::Comparer comparer(graph, parsed, threshold);
    comparer.add(layout, trace, &accumulated, local, bounds, 0);
    return comparer.finish();
  }

  driftbound::analysis::Report report() const {
    driftbound::analysis::Report result{{}, compare(0.5, {"layer[1]-layer[0]"})};
    result.context.model_file = "hand.onnx";
    result.context.inputs_file = "x.npy";
    result.context.arithmetic.source = "test";
    return result;
  }
};
