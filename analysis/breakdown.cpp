#include "analysis/breakdown.hpp"

#include <cmath>

namespace driftbound::analysis {
namespace {

/// computed - mid rounded to nearest.
double approx_signed_error(double computed, const Ball& exact) {
  return std::copysign(approx_error_of(computed, exact), (computed - exact.hi) - exact.lo);
}

double any_order_bound_of(const TargetBounds& target, std::size_t sample) {
  for (const BoundResult& bound : target.bounds)
    if (bound.kind == BoundKind::adjoint_any_order) return bound.values.values[sample];
  return 0.0;
}

/// local x condition x |target| is what the layer has in adjoint/any-order.
void add_condition(const TargetBounds& target, std::size_t node, std::size_t sample, LayerPart& part) {
  if (!target.condition) return;
  const double condition = target.condition->layers[node][sample];
  part.condition = condition;
  const double multiplied = condition * target.condition->target[sample];
  if (node >= target.layer_shares.size() || !(multiplied > 0.0) || !std::isfinite(multiplied)) return;
  const double local = target.layer_shares[node][sample] / multiplied;
  if (std::isfinite(local)) part.local = local;
}

std::vector<LayerPart> parts_of(const TargetBounds& target, std::size_t sample) {
  const double bound = any_order_bound_of(target, sample);
  std::vector<LayerPart> parts;
  for (std::size_t node = 0; node < target.attribution->layers.size(); ++node) {
    LayerPart part;
    part.part = target.attribution->layers[node][sample];
    if (node < target.layer_shares.size() && bound > 0.0 && std::isfinite(bound))
      part.bound_share = target.layer_shares[node][sample] / bound;
    add_condition(target, node, sample, part);
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

void BreakdownKeeper::add(const std::vector<double>& computed, const std::vector<Ball>& exact,
                          const TargetBounds& target, std::int64_t first_sample) {
  if (!target.attribution) return;
  for (std::size_t sample = 0; sample < computed.size(); ++sample) {
    if (!std::isfinite(computed[sample]) || !exact[sample].is_finite()) continue;
    const double error = approx_signed_error(computed[sample], exact[sample]);
    if (largest_ && !(std::abs(error) > std::abs(largest_->error))) continue;
    largest_ = Breakdown{first_sample + static_cast<std::int64_t>(sample), error, target.attribution->inputs[sample],
                         parts_of(target, sample)};
  }
}

std::optional<Breakdown> BreakdownKeeper::finish(const Graph& graph) const {
  if (!largest_ || largest_->error == 0.0) return std::nullopt;
  constexpr double tolerance = 0.01;
  double sum = largest_->inputs;
  for (const LayerPart& part : largest_->layers) sum += part.part;
  if (!(std::abs(sum - largest_->error) <= tolerance * std::abs(largest_->error))) return std::nullopt;
  Breakdown named = *largest_;
  for (std::size_t node = 0; node < named.layers.size(); ++node) named.layers[node].layer = graph.nodes[node].name;
  return named;
}

}  // namespace driftbound::analysis
