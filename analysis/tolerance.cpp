#include "analysis/tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "driftbound/reference/reference.hpp"

namespace driftbound::analysis {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// The result of the op as one recorded layer of a program that is not this one.
Trace trace_of(const Graph& graph, const Inputs& inputs, const ArithmeticModel& arithmetic,
               const Tensor<double>& result) {
  Trace trace;
  trace.arithmetic = arithmetic;
  trace.provenance.program = "any";
  trace.samples = 1;
  trace.inputs = inputs;
  trace.layers.push_back({graph.nodes.front().name, StoredTensor::from(result)});
  return trace;
}

/// The smallest of some local bounds, by element.
std::vector<double> smallest(const LayerBounds& bounds, std::size_t size, bool by_chance) {
  std::vector<double> values(size, unbounded);
  for (const BoundResult& bound : bounds.local) {
    const bool counts = bound.guarantee == Guarantee::proven || bound.guarantee == Guarantee::conditional ||
                        (by_chance && bound.guarantee == Guarantee::probabilistic);
    for (std::size_t i = 0; counts && i < size; ++i) values[i] = std::min(values[i], bound.values.values[i]);
  }
  return values;
}

/// Away from 0 to a number of the format that a result is stored in, if it is off by `error` at most.
double largest_result(double exact, double error, const Format& stored) {
  const double largest = round_to(std::nextafter(std::abs(exact) + error, unbounded), stored, Rounding::up);
  return std::copysign(std::isfinite(largest) ? largest : stored.largest, exact);
}

}  // namespace

OpTolerance tolerance_of(const Graph& graph, const Inputs& inputs, const ArithmeticModel& arithmetic,
                         double failure_probability, int threads) {
  PrecisionPolicy policy;
  policy.threads = threads;
  const Tensor<Ball> exact = certified_reference(graph, inputs, policy).layers.back();
  OpTolerance tolerance;
  tolerance.exact.shape = exact.shape;
  std::vector<double> radii;
  for (const Ball& ball : exact.values) {
    tolerance.exact.values.push_back(ball.hi);
    radii.push_back(Magnitude(ball.radius + Magnitude(ball.lo)).value());
  }
  BoundOptions options;
  options.threads = threads;
  options.failure_probability = failure_probability;
  options.tests_readings = false;
  for (const BoundKind kind :
       {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic, BoundKind::order_aware})
    options.requests.emplace_back(kind);
  constexpr std::size_t most_estimated = 1024;
  const bool has_estimate = exact.size() <= most_estimated;
  const Format& stored = format(arithmetic.output);
  Tensor<double> result = tolerance.exact;
  for (double& y : result.values) y = round_to(y, stored, Rounding::nearest_even);
  // The bounds at the exact result, and then at the largest one that these allow: T-138.
  LayerBounds bounds = bound(graph, trace_of(graph, inputs, arithmetic, result), options).layers.back();
  const std::vector<double> first = smallest(bounds, result.size(), false);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (std::isfinite(first[i]))
      result.values[i] = largest_result(tolerance.exact.values[i], first[i] + radii[i], stored);
  if (has_estimate) options.requests.emplace_back(BoundKind::adjoint_statistical);
  options.most_output_elements = static_cast<std::int64_t>(most_estimated);
  Bounds second = bound(graph, trace_of(graph, inputs, arithmetic, result), options);
  bounds = std::move(second.layers.back());
  tolerance.assumptions = std::move(second.assumptions);
  tolerance.proven = {exact.shape, smallest(bounds, result.size(), false)};
  tolerance.by_chance = {exact.shape, smallest(bounds, result.size(), true)};
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!std::isfinite(first[i])) tolerance.proven.values[i] = tolerance.by_chance.values[i] = unbounded;
    for (Tensor<double>* of : {&tolerance.proven, &tolerance.by_chance})
      of->values[i] = (Magnitude(of->values[i]) + Magnitude(radii[i])).value();
  }
  for (const BoundResult& one : bounds.accumulated)
    if (one.kind == BoundKind::adjoint_statistical && one.not_applicable.empty()) tolerance.estimate = one.values;
  for (std::size_t i = 0; i < tolerance.estimate.size(); ++i)
    tolerance.estimate.values[i] = std::min(tolerance.estimate.values[i], tolerance.proven.values[i]);
  const auto is_conditional = [](const BoundResult& bound) { return bound.guarantee == Guarantee::conditional; };
  if (std::any_of(bounds.local.begin(), bounds.local.end(), is_conditional))
    tolerance.guarantee = Guarantee::conditional;
  return tolerance;
}

}  // namespace driftbound::analysis
