#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bounds/nodes/normed_values.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/reference/reference.hpp"
#include "model/convert.hpp"
#include "support/approach.hpp"

// Normalisations of operands that roundings change beyond recognition, against certified references.

using namespace driftbound;

namespace {

/// How a normalisation is written out.
struct NormForm {
  std::string name;
  bool is_power = false;       ///< squares are powers of 2, else products
  bool has_mean_op = false;    ///< ReduceMean, else a sum over or times a constant
  bool is_times = false;       ///< the sum is multiplied by the weight, else divided by the number of elements
  bool is_reciprocal = false;  ///< times the reciprocal, else a quotient
  bool keeps_axes = true;
  double epsilon = 1e-10;
};

class NormNetwork {
public:
  ValueId constant(const std::string& name, Shape shape, std::vector<double> values) {
    return graph.add_constant(name, StoredTensor::from(Tensor<double>(std::move(shape), std::move(values))));
  }
  ValueId number(double value) { return constant("c" + std::to_string(graph.values.size()), {}, {value}); }
  ValueId node(Op op, std::vector<ValueId> inputs) {
    return graph.add_node("n" + std::to_string(graph.nodes.size()), std::move(op), std::move(inputs));
  }
  /// (x + big) - big - 5, of which the first element is -0.5, and 3 in float32; the others are 0.
  ValueId rounded_away() {
    const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {4, ""}});
    const ValueId b = constant("big", {4}, {1e8, 0.0, 0.0, 0.0});
    return node(op::Sub{}, {node(op::Sub{}, {node(op::Add{}, {x, b}), b}), number(5.0)});
  }
  ValueId normed(const NormForm& form, ValueId x) {
    const ValueId square = form.is_power ? node(op::Pow{2.0}, {x}) : node(op::Mul{}, {x, x});
    ValueId mean = 0;
    if (form.has_mean_op) {
      mean = node(op::ReduceMean{{1}, form.keeps_axes}, {square});
    } else {
      const ValueId sum = node(op::ReduceSum{{1}, form.keeps_axes}, {square});
      mean = form.is_times ? node(op::Mul{}, {sum, number(0.25)}) : node(op::Div{}, {sum, number(4.0)});
    }
    const ValueId root = node(op::Sqrt{}, {node(op::Add{}, {mean, number(form.epsilon)})});
    if (form.is_reciprocal) return node(op::Mul{}, {node(op::Reciprocal{}, {root}), x});
    return node(op::Div{}, {x, root});
  }

  Graph graph;
};

struct OfForward {
  double bound = 0.0, used = 0.0;  ///< the largest, and the largest share that an error uses
  bool holds = true;
};

/// The `forward` bound of the output.
OfForward forward_of(const Graph& graph) {
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<double>({1, 4}, {4.5, 5.0, 5.0, 5.0})));
  const ArithmeticModel fp32 = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
  Trace trace = cpu_evaluator(fp32).run(graph, inputs);
  const std::vector<Shape> shapes = infer_shapes(graph, {{1, 4}});
  for (std::size_t node = 0; node < graph.nodes.size(); ++node)  // without an axis of samples
    trace.layers[node].output = reshaped(trace.layers[node].output, shapes[graph.nodes[node].output]);
  BoundOptions options;
  options.requests = {BoundKind::forward};
  const Bounds bounds = bound(graph, trace, options);
  const Tensor<double> computed = trace.layers.back().output.to_double();
  const Tensor<Ball> exact = certified_reference(graph, inputs).layers.back();
  const std::vector<BoundResult>& results = bounds.layers.back().accumulated;
  REQUIRE_FALSE(results.empty());
  REQUIRE(results.front().kind == BoundKind::forward);
  OfForward result;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const double most = results.front().values.values[i], error = error_of(computed.values[i], exact.values[i]).lower();
    result.holds = result.holds && error <= most;
    result.bound = std::max(result.bound, most);
    if (most > 0.0) result.used = std::max(result.used, error / most);
  }
  return result;
}

}  // namespace

TEST_CASE("T-132: forward is finite behind a normalisation of an operand that is all error, and attained") {
  const std::vector<NormForm> forms = {{"quotient by a mean"},
                                       {"powers", true},
                                       {"a mean op", false, true},
                                       {"a weight", true, false, true},
                                       {"a reciprocal", false, true, false, true},
                                       {"a reciprocal of a weighted sum", true, false, true, true}};
  double used = 0.0;
  for (const NormForm& form : forms) {
    CAPTURE(form.name);
    NormNetwork network;
    network.graph.outputs = {network.normed(form, network.rounded_away())};
    const OfForward result = forward_of(network.graph);
    CHECK(result.holds);
    CHECK(std::isfinite(result.bound));
    used = std::max(used, result.used);
  }
  CHECK_APPROACH("T-132", used, 0.99);
}

TEST_CASE("T-132 holds for composites that normalise, and bounds scales times the root of their number") {
  NormNetwork network;
  const ValueId x = network.rounded_away();
  const ValueId scale = network.constant("scale", {4}, {2.0, 1.0, 1.0, 1.0});
  network.graph.outputs = {network.node(op::RMSNormalization{1, 1e-10}, {x, scale})};
  const OfForward result = forward_of(network.graph);
  CHECK(result.holds);
  CHECK(result.bound <= 2.0 * (2.0 + 2.0) * (1.0 + 1e-5));
}

TEST_CASE("what only looks like a normalisation has no such bound") {
  const auto is_finite = [](const NormForm& form) {
    NormNetwork network;
    network.graph.outputs = {network.normed(form, network.rounded_away())};
    return std::isfinite(forward_of(network.graph).bound);
  };
  CHECK(is_finite({"as it is"}));
  CHECK_FALSE(is_finite(
      {"axes dropped: other shapes would divide rows by the roots of others", false, false, false, false, false}));
  CHECK_FALSE(is_finite({"no epsilon", false, false, false, false, true, 0.0}));
  NormNetwork other;
  const ValueId x = other.rounded_away(), twice = other.node(op::Add{}, {x, x});
  const ValueId mean = other.node(op::ReduceMean{{1}, true}, {other.node(op::Mul{}, {x, twice})});
  const ValueId root = other.node(op::Sqrt{}, {other.node(op::Add{}, {mean, other.number(1e-10)})});
  other.graph.outputs = {other.node(op::Div{}, {x, root})};
  CHECK_FALSE(std::isfinite(forward_of(other.graph).bound));
}
