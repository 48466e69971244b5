#include "bounds/chance/probabilistic.hpp"

#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {
namespace {

/// Bounds the last rounding of a sum together with the rounding of storing it.
Magnitude last_rounding(const UnrecordedSum& sum, const Setting& setting) {
  const bool nothing_rounded = sum.terms.leaves < 2 && sum.terms.rounded == Magnitude();
  return nothing_rounded ? theorems::unrecorded_storing(sum.terms.sum, setting.machine)
                         : theorems::unrecorded_rounding(sum.terms.sum + sum.before, setting.machine);
}

NodeChance roundings_of_sums(const RoundingNode& node, const Setting& setting) {
  NodeChance chance;
  chance.rest = rest_of_sums(node, setting);
  for (std::size_t i = 0; i < node.sums.size(); ++i) {
    const Magnitude last = last_rounding(node.sums[i], setting);
    const Magnitude inner = theorems::partial_sums_squares(node.sums[i].terms, setting.machine);
    const bool is_known = setting.machine.stores_narrower();
    chance.amplitudes.push_back(sqrt_up(is_known ? inner : inner + last * last).value());
    if (is_known) chance.rest[i] = (Magnitude(chance.rest[i]) + last).value();
  }
  return chance;
}

}  // namespace

bool rounds_once(const Op& op) {
  return std::visit(
      [](const auto& which) {
        return OneOf<std::decay_t<decltype(which)>, op::Add, op::Sub, op::Mul, op::Div, op::PRelu, op::Reciprocal>;
      },
      op);
}

NodeChance martingale_roundings(const RoundingNode& node, const Setting& setting) {
  if (!node.sums.empty()) return roundings_of_sums(node, setting);
  NodeChance chance;
  if (!rounds_once(node.view.node->op) || setting.machine.stores_narrower()) {
    chance.rest.assign(node.added.begin(), node.added.end());
    return chance;
  }
  for (std::size_t i = 0; i < node.moved.size(); ++i) {
    const Magnitude largest = Magnitude(node.view.y(i)) + Magnitude(node.moved[i]);
    chance.amplitudes.push_back(theorems::unrecorded_rounding(largest, setting.machine).value());
  }
  chance.rest.assign(node.own.begin(), node.own.end());
  return chance;
}

}  // namespace driftbound::bounds
