#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"
#include "support/bound_checks.hpp"
#include "support/half_network.hpp"

// Bounds of runs that store results in narrow formats, in the types that a model declares or in one for all nodes.

namespace {

using namespace driftbound;
using namespace driftbound::tests;

constexpr SummationOrder stored_in_blocks = {SummationOrder::Kind::blocked, 8, true};

struct StoredRun {
  Graph graph;
  Trace trace;
  Bounds bounds;
};

StoredRun stored_run(FormatId output, bool declared) {
  std::mt19937_64 random(2712);
  StoredRun run;
  run.graph = half_network(random);
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", stored_in_blocks);
  arithmetic.output = output;
  arithmetic.stores_declared_types = declared;
  run.trace = cpu_evaluator(arithmetic).run(run.graph, half_inputs(random));
  run.bounds = bound(run.graph, run.trace);
  return run;
}

/// By node: the largest error over its smallest local bound, next to the node in double on the recorded operands.
std::vector<double> shares_used(const StoredRun& run) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < run.graph.nodes.size(); ++i) {
    const Tensor<double> nearly_exact =
        alone(run.graph, run.graph.nodes[i], run.trace, cpu_arithmetic("fp64", stored_in_blocks));
    const Tensor<double> computed = run.trace.layers[i].output.to_double();
    double largest = 0.0;
    for (std::size_t k = 0; k < computed.size(); ++k) {
      double smallest = std::numeric_limits<double>::infinity();
      for (const BoundResult& local : run.bounds.layers[i].local)
        if (local.guarantee <= Guarantee::conditional) smallest = std::min(smallest, local.values.values[k]);
      const double error = std::abs(computed.values[k] - nearly_exact.values[k]);
      if (error > 0.0) largest = std::max(largest, error / smallest);
    }
    shares.push_back(largest);
  }
  return shares;
}

double largest_relative_bound(const StoredRun& run, const char* layer) {
  const auto at = std::find_if(run.trace.layers.begin(), run.trace.layers.end(),
                               [&](const LayerTrace& each) { return each.name == layer; });
  const auto index = static_cast<std::size_t>(at - run.trace.layers.begin());
  const BoundResult& local = *checks::find_bound(run.bounds.layers[index].local, BoundKind::componentwise);
  const std::vector<double> y = at->output.to_double().values;
  double largest = 0.0;
  for (std::size_t k = 0; k < y.size(); ++k)
    if (std::abs(y[k]) > 0.1) largest = std::max(largest, local.values.values[k] / std::abs(y[k]));
  return largest;
}

}  // namespace

TEST_CASE("local bounds of stored results hold and are nearly attained (T-14, T-22)") {
  for (const auto& [output, declared] :
       {std::pair{FormatId::fp32, true}, {FormatId::fp16, false}, {FormatId::bf16, false}}) {
    const StoredRun run = stored_run(output, declared);
    const std::vector<double> shares = shares_used(run);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      CAPTURE(run.graph.nodes[i].name);
      CAPTURE(format(output).name);
      CHECK(shares[i] <= 1.0);
      const bool copies = run.graph.nodes[i].name == "wide" || run.graph.nodes[i].name == "narrow";
      const bool is_kept = declared && run.graph.nodes[i].name == "normed";  // in float32: the steps inside round too
      if (!copies && !is_kept) CHECK(shares[i] >= 0.8);
    }
  }
}

TEST_CASE("a result that the model declares in float32 is judged in float32, among results in float16") {
  const StoredRun run = stored_run(FormatId::fp32, true);
  CHECK(largest_relative_bound(run, "normed") <= 100 * 0x1p-24);
  CHECK(largest_relative_bound(run, "added") <= 1.01 * 0x1p-11);
  CHECK(largest_relative_bound(run, "active") <= 1.01 * 0x1p-11);
}

TEST_CASE("what another program computes inside a composite it may store there (A-04)") {
  StoredRun run = stored_run(FormatId::fp16, false);
  const double own = largest_relative_bound(run, "normed");
  run.trace.provenance = checks::foreign_provenance;
  run.bounds = bound(run.graph, run.trace);
  CHECK(largest_relative_bound(run, "normed") >= 4.0 * own);
}

TEST_CASE("bounds for any run of stored results hold for other orders, and a replay is that of the run") {
  for (const auto& [output, declared] :
       {std::pair{FormatId::fp32, true}, {FormatId::fp16, false}, {FormatId::bf16, false}}) {
    const StoredRun run = stored_run(output, declared);
    const std::vector<Ball> exact = certified_reference(run.graph, run.trace.inputs).layers.back().values;
    for (const char* order : {"sequential", "pairwise", "blocked:8+fma"}) {
      ArithmeticModel other = run.trace.arithmetic;
      other.order = parse_summation_order(order);
      const std::vector<double> y =
          cpu_evaluator(other).run(run.graph, run.trace.inputs).layers.back().output.to_double().values;
      for (const BoundResult& result : run.bounds.layers.back().accumulated) {
        if (result.question != Question::any_run || result.guarantee > Guarantee::conditional) continue;
        const bool is_in_order = result.kind == BoundKind::replay || result.kind == BoundKind::adjoint_order_aware;
        if (is_in_order && order != std::string("blocked:8+fma")) continue;
        CAPTURE(name_of(result.kind));
        for (std::size_t k = 0; k < y.size(); ++k) CHECK(error_of(y[k], exact[k]).upper() <= result.values.values[k]);
      }
    }
    const BoundResult* replay = checks::find_bound(run.bounds.layers.back().accumulated, BoundKind::replay);
    REQUIRE(replay != nullptr);
    CHECK(replay->guarantee <= Guarantee::conditional);  // a composite's steps are A-04
    CHECK(*std::max_element(replay->values.values.begin(), replay->values.values.end()) <= 4 * 0x1p-8);
  }
}

TEST_CASE("a copy of the format's largest number has no error in any run (T-22)") {
  Graph graph;
  const auto constant = [&](const char* name, std::vector<double> values) {
    const Shape shape = {static_cast<std::int64_t>(values.size())};
    return graph.add_constant(name, stored_as(ElementType::f16, Tensor<double>(shape, std::move(values))));
  };
  const ValueId x = graph.add_input("x", ElementType::f16, dimensions({open, 2}));
  const ValueId bias = graph.add_node("bias", op::Neg{}, {constant("most", {0.0, 65504.0})});
  const ValueId active = graph.add_node("active", op::Tanh{}, {x});
  graph.outputs = {graph.add_node("y", op::Max{}, {active, bias})};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", stored_in_blocks);
  arithmetic.stores_declared_types = true;
  const Inputs given = inputs({{"x", stored_as(ElementType::f16, Tensor<double>({1, 2}, {0.5, 0.25}))}});
  const Bounds bounds = bound(graph, cpu_evaluator(arithmetic).run(graph, given));
  for (const double value :
       checks::find_bound(bounds.layers.back().accumulated, BoundKind::adjoint_any_order)->values.values)
    CHECK(value <= 0x1p-10);
}
