#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/chance_checks.hpp"

// Condition numbers of layers, against relative errors put into every term of their sums.

using namespace checks;

namespace {

/// tanh(x W) V with two outputs; every term of one of the sums off by a relative e of the worst sign for c.y.
struct TwoLayers {
  std::vector<double> x, w, v;
  std::size_t k = 3, h = 4, m = 2;

  explicit TwoLayers(Generator& generator) {
    const auto some = [&](std::size_t count) {
      std::vector<double> values;
      for (std::size_t i = 0; i < count; ++i)
        values.push_back(static_cast<double>(static_cast<float>(uniform(generator, -1.0, 1.0))));
      return values;
    };
    x = some(k);
    w = some(k * h);
    v = some(h * m);
  }

  Bounds bounds(const std::vector<Target>& targets) const {
    Graph graph;
    const auto extent = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const auto as_float = [](const std::vector<double>& values, const Shape& shape) {
      Tensor<float> tensor(shape);
      for (std::size_t i = 0; i < values.size(); ++i) tensor.values[i] = static_cast<float>(values[i]);
      return StoredTensor::from(tensor);
    };
    const ValueId input = add_fixed_input(graph, "x", ElementType::f32, {1, extent(k)});
    const ValueId first = graph.add_constant("w", as_float(w, {extent(k), extent(h)}));
    const ValueId second = graph.add_constant("v", as_float(v, {extent(h), extent(m)}));
    const ValueId hidden = graph.add_node("hidden", op::MatMul{}, {input, first});
    const ValueId bent = graph.add_node("bent", op::Tanh{}, {hidden});
    graph.outputs = {graph.add_node("y", op::MatMul{}, {bent, second})};
    Inputs inputs;
    inputs.tensors = {{"x", as_float(x, {1, extent(k)})}};
    BoundOptions options;
    options.targets = targets;
    options.requests = {Diagnostic::condition};
    return bound(graph,
                 cpu_evaluator(cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false})).run(graph, inputs),
                 options);
  }

  /// y_positive - y_negative (or y_positive), with terms of layer 0 or 2, or values of layer 1, off by e; 3: none.
  double target(std::size_t positive, std::optional<std::size_t> negative, int layer, double e) const {
    double y = 0.0;
    for (std::size_t j = 0; j < h; ++j) {
      const double weight = v[j * m + positive] - (negative ? v[j * m + *negative] : 0.0);
      double sum = 0.0;
      for (std::size_t i = 0; i < k; ++i) {
        const double term = x[i] * w[i * h + j];
        sum += layer == 0 ? term + std::copysign(e * std::abs(term), weight) : term;
      }
      double value = std::tanh(sum);
      if (layer == 1) value += std::copysign(e * std::abs(value), weight);
      for (const auto& [output, sign] : {std::pair{std::optional(positive), 1.0}, std::pair{negative, -1.0}}) {
        if (!output) continue;
        const double term = sign * value * v[j * m + *output];
        y += layer == 2 ? term + e * std::abs(term) : term;
      }
    }
    return y;
  }
};

}  // namespace

TEST_CASE("a relative error of every term moves the target by as much as the layer's condition number says (T-79)") {
  Generator generator(791);
  constexpr double e = 1e-7;
  for (int repetition = 0; repetition < 20; ++repetition) {
    const TwoLayers network(generator);
    const Bounds bounds = network.bounds({{{0, 1}, std::nullopt}, {{0, 1}, OutputElement{0, 0}}});
    for (std::size_t i = 0; i < 2; ++i) {
      const std::optional<std::size_t> negative = i == 0 ? std::nullopt : std::optional<std::size_t>(0);
      const Condition& condition = bounds.targets[i].condition.value();
      const double y = network.target(1, negative, 3, 0.0);
      REQUIRE(condition.layers.size() == 3);
      CHECK(condition.target[0] == doctest::Approx(std::abs(y)));
      for (int layer = 0; layer < 3; ++layer) {
        const double moved = network.target(1, negative, layer, e) - y;
        CHECK(condition.layers[static_cast<std::size_t>(layer)][0] ==
              doctest::Approx(moved / (e * std::abs(y))).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("a target of 0 has an infinite condition number, and none where it is not asked for") {
  Generator generator(792);
  TwoLayers network(generator);
  for (std::size_t j = 0; j < network.h; ++j) network.v[j * 2] = network.v[j * 2 + 1];
  const Bounds bounds = network.bounds({{{0, 1}, OutputElement{0, 0}}});
  const Condition& condition = bounds.targets[0].condition.value();
  CHECK(condition.target[0] == 0.0);
  CHECK(std::isinf(condition.layers[2][0]));
}
