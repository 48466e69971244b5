#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "bounds/blocks/sketch.hpp"
#include "support/trajectory_checks.hpp"
#include "support/transformers.hpp"

/// Radii by random directions: their rules against exact distributions, and all of them against networks in 700 bits.
namespace checks {

/// Probabilities by value.
using Distribution = std::map<double, double>;

/// Of one random number.
inline Distribution of_coin_flips() {
  Distribution result;
  for (int ones = 0; ones <= 64; ++ones) {
    const std::uint64_t word = ones == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << ones) - 1;
    const double log_ways = std::lgamma(65.0) - std::lgamma(ones + 1.0) - std::lgamma(65.0 - ones);
    result[bounds::coin_flips(word)] += std::exp(log_ways - 64.0 * std::log(2.0));
  }
  return result;
}

inline Distribution sum_of(const Distribution& a, const Distribution& b) {
  Distribution result;
  for (const auto& [x, p] : a)
    for (const auto& [y, q] : b) result[x + y] += p * q;
  return result;
}

inline Distribution squared(const Distribution& a) {
  Distribution result;
  for (const auto& [x, p] : a) result[x * x] += p;
  return result;
}

/// How often the quantile is undercut by sums of `sources` numbers of one size, as a share of what it allows; the
/// largest one is kept in `closest`.
inline std::int64_t check_quantile(double* closest = nullptr) {
  std::int64_t violations = 0;
  Distribution sum = of_coin_flips();
  for (int sources = 1; sources <= 4; sources *= 2, sum = sum_of(sum, sum)) {
    const Distribution one = squared(sum);
    Distribution all = one;
    for (int directions = 1; directions <= (sources == 1 ? 8 : 3); ++directions) {
      if (directions > 1) all = sum_of(all, one);
      for (const double failure : {0.5, 0.1, 1e-2, 1e-4}) {
        const double most = bounds::sketch_quantile(directions, failure) * sources;
        double undercut = 0.0;
        for (auto at = all.begin(); most > 0.0 && at != all.end() && at->first <= most; ++at) undercut += at->second;
        violations += undercut <= failure ? 0 : 1;
        if (closest != nullptr) *closest = std::max(*closest, undercut / failure);
      }
    }
  }
  return violations;
}

inline std::int64_t check_share() {
  std::int64_t violations = 0;
  for (const double amplitude : {1e-20, 0.3, 7.0}) {
    for (const double noise : {1e-12, 0.7, 3.0}) {
      const Real share = Real(amplitude) * Real(amplitude) / (Real(noise) * Real(noise));
      violations += share <= Real(bounds::sketch_share(Magnitude(amplitude), noise).value()) ? 0 : 1;
    }
    violations += std::isinf(bounds::sketch_share(Magnitude(amplitude), 0.0).value()) ? 0 : 1;
  }
  return violations;
}

inline std::int64_t check_radius() {
  std::int64_t violations = 0;
  for (const double lost : {0.0, 1e-8, 1.0, 4.0}) {
    const Real radius = Real(3.0).apply(mpfr_sqrt) * Real(0.7) / (Real(20.0).apply(mpfr_sqrt) - Real(lost));
    const double bound = bounds::sketch_radius(Magnitude(3.0), Magnitude(0.7), 20.0, Magnitude(lost)).value();
    violations += radius <= Real(bound) ? 0 : 1;
  }
  for (const double lost : {4.5, 1e300})
    violations +=
        std::isinf(bounds::sketch_radius(Magnitude(3.0), Magnitude(0.7), 20.0, Magnitude(lost)).value()) ? 0 : 1;
  violations += std::isinf(bounds::sketch_radius(Magnitude(3.0), Magnitude(0.7), 0.0, Magnitude()).value()) ? 0 : 1;
  return violations;
}

inline std::int64_t check_cover() {
  const auto covers = bounds::sketch_covers;
  std::int64_t violations = 0;
  violations += covers(1.0, 1.0) ? 0 : 1;
  violations += covers(1.5, 1.0) ? 1 : 0;
  violations += covers(std::nan(""), 1.0) ? 1 : 0;
  return violations;
}

/// One reduction, which apply() does not know.
inline Tensor<Real> reduced(const Node& node, const Tensor<Real>& x, const Shape& shape) {
  const GroupPlan plan = plan_groups(node.op, x.shape);
  Tensor<Real> result(shape);
  for (std::size_t g = 0; g < result.size(); ++g) {
    Real value = x.values[plan.groups[g] + plan.elements[0]];
    for (std::size_t j = 1; j < plan.elements.size(); ++j) {
      const Real& next = x.values[plan.groups[g] + plan.elements[j]];
      if (std::holds_alternative<op::ReduceSum>(node.op))
        value = value + next;
      else if (value < next)
        value = next;
    }
    result.values[g] = value;
  }
  return result;
}

/// Every value of a flat graph over the reals; ReduceMin does not occur.
inline std::vector<Tensor<Real>> evaluated(const Program& program, const Tensor<Real>& x) {
  const Graph& graph = program.flat().graph;
  std::vector<Tensor<Real>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) values[id] = convert<Real>(graph.value(id).constant.to_double());
  }
  values[graph.inputs[0]] = x;
  for (const Node& node : graph.nodes) {
    const Shape& shape = program.shape(node.output);
    const bool reduces =
        std::holds_alternative<op::ReduceSum>(node.op) || std::holds_alternative<op::ReduceMax>(node.op);
    Operands<Real> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    values[node.output] = reduces ? reduced(node, *operands[0], shape) : apply(node.op, operands, shape, {});
  }
  return values;
}

/// A network of one input and its shadow at a point, for radii by random directions.
class Sketched {
public:
  Sketched(const Graph& graph, Tensor<double> x, int threads = 1)
      : graph_(graph),
        arithmetic_(double_arithmetic()),
        setting_(setting_of(arithmetic_)),
        program_(graph_, {x.shape}, std::nullopt),
        x_(std::move(x)) {
    setting_.threads = threads;
    shadow_ = bounds::shadow_of(program_, {x_}, setting_);
  }

  /// Of any run in double whose inputs are off by up to `radius`.
  std::optional<bounds::Deviation> draw(double radius, const bounds::SketchOptions& options = {}) {
    return bounds::sketched(bounds::Trajectory::any_order, program_, shadow_, off_by(radius), setting_, operands_,
                            options);
  }
  bounds::Deviation from_node_to_node(double radius) {
    return bounds::deviation_of(bounds::Trajectory::any_order, program_, shadow_, off_by(radius), setting_, operands_);
  }
  /// The adjoint's bound of an element of the output.
  double certificate(const bounds::Deviation& deviation, std::int64_t element) const {
    const std::vector<bounds::Deviation> deviations = {deviation};
    return bounds::sweep(program_, shadow_, deviations,
                         bounds::direction_of(program_, shadow_, {{output(), element, 1.0}}), setting_)
        .front()
        .total[0];
  }

  /// Every value of the exact network at inputs that are off, or the output alone, within its radius.
  Tally check_at(const bounds::Deviation& deviation, double radius, const std::vector<double>& signs,
                 bool output_only = false) const {
    Tensor<Real> moved = convert<Real>(x_);
    for (std::size_t i = 0; i < moved.size(); ++i) moved.values[i] += Real(signs[i] * radius);
    const std::vector<Tensor<Real>> exact = evaluated(program_, moved);
    Tally tally;
    for (ValueId id = 0; id < exact.size(); ++id) {
      if (output_only && id != output()) continue;
      const std::vector<double>& radii = deviation.radii[id].element;
      for (std::size_t i = 0; i < exact[id].size(); ++i)
        tally.add(shadow_.values[id].values[i], exact[id].values[i], radii.empty() ? 0.0 : radii[i]);
    }
    return tally;
  }

  ValueId output() const { return program_.flat().graph.outputs[0]; }
  const bounds::Shadow& shadow() const { return shadow_; }
  const Program& program() const { return program_; }
  std::size_t inputs() const { return x_.size(); }

private:
  std::vector<std::vector<double>> off_by(double radius) const {
    return {std::vector<double>(radius == 0.0 ? 0 : x_.size(), radius)};
  }

  Graph graph_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  Tensor<double> x_;
  bounds::Shadow shadow_;
  bounds::OperandCache operands_;
};

inline Sketched sketched_transformer(const TransformerSize& size, std::uint64_t seed, int threads = 1) {
  Generator generator(seed);
  TransformerBuilder builder(size, generator);
  const Graph graph = builder.build();
  return {graph, builder.inputs(), threads};
}

}  // namespace checks
