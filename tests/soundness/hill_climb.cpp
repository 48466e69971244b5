#include "soundness/hill_climb.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/ball.hpp"
#include "soundness/random_values.hpp"

namespace driftbound::soundness {
namespace {

constexpr std::size_t population = 64;
constexpr std::size_t survivors = 8;

/// All factors stay within [1/2, 2), so that no single rounding decides.
double random_factor(Random& random) {
  return random.sign() * (random.chance(0.5) ? 1.0 : 0.5) * (1.0 + random.uniform());
}

/// y = sum_k a_k b_k with a and b both inputs: every sample has its own data.
Graph dot_product_graph(ElementType type, std::int64_t n) {
  Graph graph;
  const ValueId a = graph.add_input("a", type, {{-1, "batch"}, {1, ""}, {n, ""}});
  const ValueId b = graph.add_input("b", type, {{-1, "batch"}, {n, ""}, {1, ""}});
  graph.outputs.push_back(graph.add_node("dot", op::MatMul{}, {a, b}));
  return graph;
}

double change(Random& random, double x) {
  switch (random.integer(0, 5)) {
    case 0:
      return random_factor(random);
    case 1:
      return x * random.pick(std::vector<double>{0.5, 2.0, -1.0});
    case 2:
      return std::copysign(std::ldexp(1.0, std::ilogb(x)), x);
    default:
      return x * (1.0 + static_cast<double>(random.integer(-8, 8)) *
                            std::ldexp(1.0, static_cast<int>(-random.integer(4, 52))));
  }
}

Approach changed(Random& random, Approach parent) {
  const std::int64_t changes = random.integer(1, 3);
  for (std::int64_t i = 0; i < changes; ++i) {
    std::vector<double>& values = random.chance(0.5) ? parent.a : parent.b;
    double& value = values[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(values.size()) - 1))];
    const double next = change(random, value);
    if (std::abs(next) >= 0.5 && std::abs(next) < 2.0) value = next;
  }
  return parent;
}

Approach random_start(Random& random, std::int64_t n) {
  Approach start;
  for (std::int64_t k = 0; k < n; ++k) {
    start.a.push_back(random_factor(random));
    start.b.push_back(random_factor(random));
  }
  return start;
}

Inputs as_inputs(ElementType type, const std::vector<Approach>& candidates, std::int64_t n) {
  std::vector<double> a, b;
  for (const Approach& candidate : candidates) {
    a.insert(a.end(), candidate.a.begin(), candidate.a.end());
    b.insert(b.end(), candidate.b.begin(), candidate.b.end());
  }
  const auto count = static_cast<std::int64_t>(candidates.size());
  Inputs inputs;
  inputs.tensors.emplace_back("a", store(type, {count, 1, n}, a));
  inputs.tensors.emplace_back("b", store(type, {count, n, 1}, b));
  return inputs;
}

/// Fills in how much of the bound each candidate uses.
void rate(const Graph& graph, const Trace& trace, BoundKind kind, const CheckOptions& options,
          std::vector<Approach>& candidates) {
  const Reference local = local_reference(graph, trace, options.precision);
  const Bounds bounds = bound(graph, trace);
  const std::vector<BoundResult>& results = bounds.layers[0].local;
  const auto wanted =
      std::find_if(results.begin(), results.end(), [&](const BoundResult& r) { return r.kind == kind; });
  const std::vector<double> computed = trace.layers[0].output.to_double().values;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const double error = approx_error_of(computed[i], local.layers[0].values[i]);
    const double used = error == 0.0 || wanted == results.end() ? 0.0 : error / wanted->values.values[i];
    candidates[i].utilisation = std::isfinite(used) ? used : 0.0;
  }
}

}  // namespace

Approach hill_climb(const ArithmeticModel& arithmetic, std::int64_t n, BoundKind kind, std::uint64_t seed,
                    int generations, const CheckOptions& options, Tally& tally) {
  Random random(seed);
  const ElementType type = arithmetic.accumulator == FormatId::fp64 ? ElementType::f64 : ElementType::f32;
  const Graph graph = dot_product_graph(type, n);
  const Evaluator evaluator = cpu_evaluator(arithmetic);
  const auto better = [](const Approach& x, const Approach& y) { return x.utilisation > y.utilisation; };
  std::vector<Approach> best;
  for (int generation = 0; generation < generations; ++generation) {
    std::vector<Approach> candidates;
    while (candidates.size() < population) {
      const bool fresh = best.empty() || random.chance(0.05);
      candidates.push_back(fresh ? random_start(random, n) : changed(random, random.pick(best)));
    }
    const Trace trace = evaluator.run(graph, as_inputs(type, candidates, n));
    check_trace(
        graph, trace, [&] { return fmt::format("hill climb {:#x}, n = {}, generation {}", seed, n, generation); },
        options, tally);
    rate(graph, trace, kind, options, candidates);
    best.insert(best.end(), candidates.begin(), candidates.end());
    std::stable_sort(best.begin(), best.end(), better);
    best.resize(survivors);
  }
  return best.front();
}

std::string to_string(const Approach& approach) {
  std::string text = fmt::format("utilisation {:.4f} at", approach.utilisation);
  for (std::size_t k = 0; k < approach.a.size(); ++k)
    text += fmt::format(" ({:a}, {:a})", approach.a[k], approach.b[k]);
  return text;
}

}  // namespace driftbound::soundness
