#include <doctest/doctest.h>

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
