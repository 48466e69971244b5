#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "support/bound_checks.hpp"

using namespace checks;

namespace {

const ArithmeticModel sequential = cpu_arithmetic("fp32", parse_summation_order("sequential"));

StoredTensor stored(const Shape& shape, std::vector<float> values) {
  return StoredTensor::from(Tensor<float>(shape, std::move(values)));
}

struct Run {
  Graph graph;
  Trace trace;

  Run(Graph g, const StoredTensor& x) : graph(std::move(g)) {
    Inputs inputs;
    inputs.tensors.emplace_back("x", x);
    trace = cpu_evaluator(sequential).run(graph, inputs);
  }
};

std::vector<BoundKind> kinds_of(const std::vector<BoundResult>& bounds) {
  std::vector<BoundKind> kinds;
  for (const BoundResult& bound : bounds) kinds.push_back(bound.kind);
  return kinds;
}

Graph dot_product() {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, 3});
  const ValueId w = graph.add_constant("w", stored({3, 1}, {0.1F, 0.2F, 0.7F}));
  graph.outputs = {graph.add_node("dot", op::MatMul{}, {x, w})};
  return graph;
}

}  // namespace

TEST_CASE("an output that is named twice has its bounds once, the same as if it were named once") {
  const StoredTensor x = stored({1, 3}, {0.3F, 0.9F, -0.31F});
  Graph twice = dot_product();
  twice.outputs.push_back(twice.outputs[0]);
  const Run one(dot_product(), x), two(twice, x);
  const std::vector<BoundResult> expected = bound(one.graph, one.trace).layers[0].accumulated;
  const std::vector<BoundResult> found = bound(two.graph, two.trace).layers[0].accumulated;
  REQUIRE(kinds_of(found) == kinds_of(expected));
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].values.values == expected[i].values.values);
    CHECK(found[i].theorem == expected[i].theorem);
  }
}

TEST_CASE("what any run does with a composite or a scaled sum is a condition, also where this run is our own") {
  const StoredTensor x = stored({1, 3}, {0.3F, 0.9F, -0.31F});
  const auto any_order_of = [&](const Op& op) {
    Graph graph = dot_product();
    graph.outputs = {graph.add_node("next", op, {graph.outputs[0]})};
    const Run run(std::move(graph), x);
    return *find_bound(bound(run.graph, run.trace).layers[1].accumulated, BoundKind::adjoint_any_order);
  };
  CHECK(any_order_of(op::Neg{}).guarantee == Guarantee::proven);
  const BoundResult hard_swish = any_order_of(op::HardSwish{});
  CHECK(hard_swish.guarantee == Guarantee::conditional);
  CHECK(hard_swish.condition.find("A-04") != std::string::npos);

  Graph scaled;
  const ValueId in = add_fixed_input(scaled, "x", ElementType::f32, {1, 3});
  const ValueId w = scaled.add_constant("w", stored({3, 1}, {0.1F, 0.2F, 0.7F}));
  scaled.outputs = {scaled.add_node("gemm", op::Gemm{0.5, 1.0, false, false}, {in, w})};
  const Run run(std::move(scaled), x);
  const Bounds bounds = bound(run.graph, run.trace);
  CHECK(find_bound(bounds.layers[0].accumulated, BoundKind::adjoint_any_order)->condition.find("A-05") !=
        std::string::npos);
  CHECK(find_bound(bounds.layers[0].accumulated, BoundKind::shadow)->guarantee == Guarantee::proven);
  CHECK(find_bound(bounds.layers[0].accumulated, BoundKind::forward)->guarantee == Guarantee::proven);
  CHECK(std::count_if(bounds.assumptions.begin(), bounds.assumptions.end(),
                      [](const std::string& text) { return text.find("A-05") != std::string::npos; }) == 1);
}

TEST_CASE("targets that are no elements of an output are refused") {
  const Run run(dot_product(), stored({1, 3}, {0.3F, 0.9F, -0.31F}));
  for (const OutputElement& element : {OutputElement{0, 1}, OutputElement{0, -1}, OutputElement{1, 0}}) {
    BoundOptions options;
    options.targets = {{{0, 0}, element}};
    CHECK_THROWS_AS(bound(run.graph, run.trace, options), InvalidArgument);
  }
}

namespace {

/// 40 numbers a sample, in an order of their own for each of the three samples.
Run wide_output() {
  constexpr std::int64_t elements = 40;
  std::vector<float> weights;
  for (std::int64_t k = 0; k < 3; ++k)
    for (std::int64_t j = 0; j < elements; ++j) weights.push_back(static_cast<float>((j * (7 + 4 * k)) % 41) / 41.0F);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, graph.add_constant("w", stored({3, elements}, weights))})};
  return Run(graph, stored({3, 3}, {0.9F, 0.1F, 0.3F, 0.1F, 0.9F, 0.2F, -0.3F, 0.2F, 0.7F}));
}

}  // namespace

TEST_CASE("of a large output the largest elements of every sample have bounds of any run") {
  const Run run = wide_output();
  BoundOptions options;
  options.most_output_elements = 5;
  options.targets = {{{0, 7}, std::nullopt}};
  const Bounds few = bound(run.graph, run.trace, options);
  options.most_output_elements = 40;
  const Bounds all = bound(run.graph, run.trace, options);
  const std::vector<double> y = run.trace.layers[0].output.to_double().values;
  for (const BoundKind kind : {BoundKind::adjoint_any_order, BoundKind::adjoint_order_aware,
                               BoundKind::adjoint_probabilistic, BoundKind::adjoint_statistical}) {
    CAPTURE(name_of(kind));
    const BoundResult* const some = find_bound(few.layers[0].accumulated, kind);
    const BoundResult* const every = find_bound(all.layers[0].accumulated, kind);
    REQUIRE(some != nullptr);
    REQUIRE(every != nullptr);
    CHECK(every->elements.empty());
    CHECK(some->elements.size() == 5);
    CHECK(std::is_sorted(some->elements.begin(), some->elements.end()));
    const auto is_followed = [&](std::int64_t element) {
      return std::binary_search(some->elements.begin(), some->elements.end(), element);
    };
    for (std::int64_t sample = 0; sample < 3; ++sample) {
      const auto row = y.begin() + 40 * sample;
      CHECK(is_followed(std::max_element(row, row + 40) - row));
      for (std::int64_t element = 0; element < 40; ++element) {
        const auto at = static_cast<std::size_t>(40 * sample + element);
        if (!is_followed(element)) {
          CHECK(std::isinf(some->values.values[at]));
        } else if (kind != BoundKind::adjoint_probabilistic) {  // this one shares its probability among all targets
          CHECK(std::abs(some->values.values[at] / every->values.values[at] - 1.0) < 1e-6);
        }
      }
    }
  }
  options.most_output_elements = 0;
  CHECK(find_bound(bound(run.graph, run.trace, options).layers[0].accumulated, BoundKind::adjoint_any_order) ==
        nullptr);
}
