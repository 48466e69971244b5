#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "analysis/report_parts.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

/// Bounds of what sums in any order can do.
bool is_of_any_order(BoundKind bound) {
  return bound == BoundKind::componentwise || bound == BoundKind::partial_sums ||
         bound == BoundKind::adjoint_any_order || bound == BoundKind::rounded_shadow;
}

/// Of bounds that hold in any order.
struct AnyOrder {
  std::int64_t checked = 0, violations = 0, open = 0;
};

AnyOrder of_any_order(const Comparison& comparison) {
  AnyOrder sum;
  for (const ScopeOf& one : scopes_of(comparison))
    for (const BoundSummary& bound : one.summary.bounds) {
      if (!bound.gives_verdict() || !is_of_any_order(bound.kind)) continue;
      sum.checked += bound.checked;
      sum.violations += bound.violations;
      sum.open += bound.undecided + bound.not_certifiable;
    }
  return sum;
}

bool has_void(const Comparison& comparison) {
  return std::any_of(comparison.layers.begin(), comparison.layers.end(),
                     [](const LayerSummary& layer) { return layer.non_finite > 0; });
}

/// What may have run in place of what was declared.
std::string explanation(const Comparison& comparison, const LayerSummary& first) {
  const AnyOrder any_order = of_any_order(comparison);
  if (any_order.violations > 0)
    return "No order of summation explains it: another arithmetic, another model, or a bug.";
  if (first.fan_in == 0)
    return fmt::format("It sums nothing, so that no order explains it: {}.", what_may_have_run(comparison));
  if (any_order.checked > 0 && any_order.open == 0 && !has_void(comparison))
    return "Every bound for sums in any order holds: another order could explain it.";
  return "Another order, another arithmetic, another model, or a bug.";
}

std::string arithmetic_of(const ReportContext& context) {
  if (context.arithmetic.tensor_core || !context.arithmetic.order.gives_partial_sums())
    return fmt::format("{} by the kernels found in its bits", context.arithmetic.name);
  return fmt::format("{} in order {}", context.arithmetic.name, to_string(context.arithmetic.order));
}

}  // namespace

const LayerSummary* first_difference(const Comparison& comparison) {
  const auto differs = [](const LayerSummary& layer) { return layer.differing.value_or(0) > 0; };
  const auto first = std::find_if(comparison.layers.begin(), comparison.layers.end(), differs);
  return first == comparison.layers.end() ? nullptr : &*first;
}

bool exceeds_any_order(const Comparison& comparison) {
  return of_any_order(comparison).violations > 0;
}

std::string_view what_may_have_run(const Comparison& comparison) {
  const LayerSummary* first = first_difference(comparison);
  return first != nullptr && first->fan_in == 0
             ? "another function library, another arithmetic, another model, or a bug"
             : "another order of summation, another arithmetic, another model, or a bug";
}

bool is_compared_with_replay(const Comparison& comparison) {
  return std::any_of(comparison.layers.begin(), comparison.layers.end(),
                     [](const LayerSummary& layer) { return layer.differing.has_value(); });
}

std::string replay_text(const Report& report) {
  const Comparison& comparison = report.comparison;
  if (!is_compared_with_replay(comparison)) return "";
  const LayerSummary* first = first_difference(comparison);
  if (first == nullptr)
    return fmt::format("The recorded run is that of {}, made again here: the same numbers in every layer.",
                       arithmetic_of(report.context));
  return fmt::format(
      "The recorded run is not that of {}, made again here: '{}' ({}) is the first layer with other numbers, {} of {}. "
      "What was declared is not what ran. {}",
      arithmetic_of(report.context), shorten(first->name, 40), first->op, *first->differing,
      first->outputs * comparison.samples, explanation(comparison, *first));
}

}  // namespace driftbound::analysis
