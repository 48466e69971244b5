#include "bounds/adjoint/probabilistic.hpp"

namespace driftbound::bounds {
namespace {

/// Ops that round once, to nearest, what they compute of their operands.
bool rounds_once(const Op& op) {
  return std::visit(
      [](const auto& which) {
        return OneOf<std::decay_t<decltype(which)>, op::Add, op::Sub, op::Mul, op::Div, op::PRelu, op::Reciprocal>;
      },
      op);
}

double amplitude_of(const UnrecordedSum& sum, const Setting& setting) {
  const Rules& rules = *setting.rules;
  const bool nothing_rounded = sum.terms.leaves < 2 && sum.terms.rounded == Magnitude();
  const Magnitude last = nothing_rounded ? rules.unrecorded_storing(sum.terms.sum, setting.machine)
                                         : rules.unrecorded_rounding(sum.terms.sum + sum.before, setting.machine);
  return sqrt_up(rules.partial_sums_squares(sum.terms, setting.machine) + last * last).value();
}

}  // namespace

NodeChance martingale_roundings(const RoundingNode& node, const Setting& setting) {
  NodeChance chance;
  if (!node.sums.empty()) {
    for (const UnrecordedSum& sum : node.sums) chance.amplitudes.push_back(amplitude_of(sum, setting));
    chance.rest = rest_of_sums(node, setting);
    return chance;
  }
  if (!rounds_once(node.view.node->op)) {
    chance.rest.assign(node.added.begin(), node.added.end());
    return chance;
  }
  for (std::size_t i = 0; i < node.moved.size(); ++i) {
    const Magnitude largest = Magnitude(node.view.y(i)) + Magnitude(node.moved[i]);
    chance.amplitudes.push_back(setting.rules->unrecorded_rounding(largest, setting.machine).value());
  }
  chance.rest.assign(node.own.begin(), node.own.end());
  return chance;
}

}  // namespace driftbound::bounds
