#include "fuzz/study.hpp"

#include <algorithm>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "fuzz/targets.hpp"
#include "model/variant.hpp"

namespace driftbound::fuzz {
namespace {

constexpr std::int64_t largest_value = std::int64_t{1} << 40;
constexpr std::int64_t most_planned = 1 << 10;

void check_product(const ProductPlan& plan, const Shape& a, const Shape& b) {
  if (plan.batches == 0 || plan.m == 0 || plan.n == 0 || plan.k == 0) return;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    require(plan.a_index(batch, 0, 0) + plan.a_index(0, plan.m - 1, plan.k - 1) - plan.a_index(0, 0, 0) <
                static_cast<std::size_t>(element_count(a)),
            "a product reads elements of A");
    require(plan.b_index(batch, 0, 0) + plan.b_index(0, plan.k - 1, plan.n - 1) - plan.b_index(0, 0, 0) <
                static_cast<std::size_t>(element_count(b)),
            "a product reads elements of B");
  }
}

void check_selection(const Op& op, const std::vector<Shape>& inputs, const Shape& output) {
  const std::vector<ElementSource> sources = plan_selection(op, inputs, output);
  require(sources.size() == static_cast<std::size_t>(element_count(output)), "a selection fills its output");
  for (const ElementSource& source : sources) {
    require(
        source.input < inputs.size() && source.index < static_cast<std::size_t>(element_count(inputs[source.input])),
        "a selection reads elements of its inputs");
  }
}

void check_broadcast(const Shape& operand, const Shape& result) {
  const BroadcastIndex index(operand, result);
  for (std::int64_t i = 0; i < element_count(result); ++i) {
    require(index(static_cast<std::size_t>(i)) < static_cast<std::size_t>(element_count(operand)),
            "a broadcast reads elements of its operand");
  }
}

void check_node(const Graph& graph, const Node& node, const std::vector<Shape>& shapes) {
  require(fan_in(graph, node, shapes) >= 0, "a sum has a length");
  std::vector<Shape> inputs;
  std::int64_t elements = element_count(shapes[node.output]);
  for (const ValueId input : node.inputs) {
    inputs.push_back(shapes[input]);
    elements = std::max(elements, element_count(shapes[input]));
  }
  if (elements > most_planned) return;
  if (is_selection(node.op)) check_selection(node.op, inputs, shapes[node.output]);
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (ElementwiseBinary<T>) {
          for (const Shape& input : inputs) check_broadcast(input, shapes[node.output]);
        } else if constexpr (requires { plan_product(op, inputs[0], inputs[1]); }) {
          check_product(plan_product(op, inputs[0], inputs[1]), inputs[0], inputs[1]);
        } else if constexpr (requires { plan_reduction(op, inputs[0]); }) {
          const ReductionPlan plan = plan_reduction(op, inputs[0]);
          require(plan.outer * plan.length * plan.inner == element_count(inputs[0]),
                  "a reduction reads its input once");
        }
      },
      node.op);
}

void check_shapes(const Graph& graph, const std::vector<Shape>& inputs) {
  std::vector<Shape> shapes;
  try {
    shapes = infer_shapes(graph, inputs);
  } catch (const ShapeMismatch&) {
    return;
  }
  for (const Node& node : graph.nodes) {
    require(element_count(shapes[node.output]) <= largest_value, "no value is larger than any memory");
    check_node(graph, node, shapes);
  }
}

}  // namespace

void study(const Graph& graph) {
  validate(graph);
  const BatchLayout layout = batch_layout(graph);
  check_shapes(graph, layout.sample_shapes);
  node_that_mixes_samples(graph, 4);
  for (const std::int64_t samples : {std::int64_t{3}, std::int64_t{1} << 39}) {
    std::vector<Shape> shapes = layout.sample_shapes;
    for (Shape& shape : shapes) {
      if (!shape.empty()) shape[0] = samples;
    }
    check_shapes(graph, shapes);
  }
}

}  // namespace driftbound::fuzz
