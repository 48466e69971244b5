#include <doctest/doctest.h>

#include <cmath>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"

using namespace driftbound;

namespace {

ValueId add_input(Graph& graph, Inputs& inputs, const char* name, const Shape& shape, std::vector<float> values) {
  std::vector<DeclaredDimension> declared;
  for (const std::int64_t extent : shape) declared.push_back({extent, ""});
  inputs.tensors.emplace_back(name, StoredTensor::from(Tensor<float>(shape, std::move(values))));
  return graph.add_input(name, ElementType::f32, std::move(declared));
}

}  // namespace

TEST_CASE("a partial sum that overflows inside a composite and leaves a finite result has no finite bound") {
  Graph graph;
  Inputs inputs;
  op::Attention attention;
  attention.scale = 1e-36;
  const ValueId q = add_input(graph, inputs, "q", {1, 1, 1, 4}, {1, 1, 1, 1});
  const ValueId k = add_input(graph, inputs, "k", {1, 1, 2, 4}, {-3e38f, -3e38f, 3e38f, 3e38f, 0, 0, 0, 0});
  const ValueId v = add_input(graph, inputs, "v", {1, 1, 2, 1}, {1, 0});
  graph.outputs = {graph.add_node("y", attention, {q, k, v})};
  const Trace whole = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
  const Trace trace = slice(graph, batch_layout(graph), whole, 0, 1);
  const double computed = trace.layers[0].output.to_double().values[0];
  const Ball exact = local_reference(graph, trace).layers[0].values[0];
  REQUIRE(std::isfinite(computed));
  REQUIRE(error_of(computed, exact).lower() > 0.4);
  const Bounds bounds = bound(graph, trace);
  for (const BoundResult& result : bounds.layers[0].local) {
    CAPTURE(name_of(result.kind));
    CHECK(!(result.values.values[0] < 0.4));
  }
}
