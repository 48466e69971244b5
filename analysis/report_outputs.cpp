#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/report_parts.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

std::vector<Column> bound_columns() {
  return {{"question", 8, true},
          {"bound", 21, true},
          {"guarantee", 13, true},
          {"theorem", 7, true},
          {"largest", 8},
          {"used", 6},
          {"x error", 8, false, "median bound/error"},
          {"remainder", 9},
          {"violated", 0, false, {}, Medium::page},
          {"ms", 7, false, "ms a sample"}};
}

/// Of `forward`, which goes through the layers, the time of all of them; bounds by two trajectories are computed
/// together and each has the time of all.
double milliseconds_a_sample(const Comparison& comparison, const BoundSummary& bound) {
  double seconds = bound.seconds;
  if (bound.kind == BoundKind::forward) {
    seconds = 0.0;
    for (const LayerSummary& layer : comparison.layers)
      if (const BoundSummary* step = find_bound(layer.accumulated, bound.kind)) seconds += step->seconds;
  }
  return comparison.samples > 0 ? 1000.0 * seconds / static_cast<double>(comparison.samples) : 0.0;
}

Cell number_or_dash(const std::optional<double>& value, Form form = Form::ratio) {
  return value ? Cell(Number{*value, form}) : Cell();
}

Row bound_row(const Comparison& comparison, const BoundSummary& bound, const std::string& question) {
  const auto unless_silent = [&](Number number) { return bound.is_silent() ? Cell() : Cell(std::move(number)); };
  Row row;
  row.cells = {question,
               std::string(name_of(bound.kind)),
               std::string(name_of(bound.guarantee)),
               bound.theorem,
               unless_silent({bound.max_bound, Form::bound}),
               unless_silent({bound.max_utilisation}),
               number_or_dash(bound.median_bound_over_error),
               number_or_dash(bound.remainder_share, Form::percent),
               Violations{bound.violations, bound.checked},
               Number{milliseconds_a_sample(comparison, bound)}};
  row.is_soft = !bound.gives_verdict();
  if (!bound.answers()) row.medium = Medium::page;
  return row;
}

/// By the question that they answer, which is named once, then folklore.
Table bound_table(const Comparison& comparison, const ScopeSummary& scope) {
  Table table{bound_columns(), {}, 4, false};
  const auto add = [&](bool answers, Question question) {
    std::string words = question == Question::this_run ? "this run" : "any run";
    for (const BoundSummary& bound : scope.bounds)
      if (bound.answers() == answers && bound.question == question)
        table.rows.push_back(bound_row(comparison, bound, std::exchange(words, "")));
  };
  for (const bool answers : {true, false})
    for (const Question question : {Question::this_run, Question::any_run}) add(answers, question);
  return table;
}

std::string error_facts(const OutputSummary& output) {
  const ScopeSummary& scope = output.scope;
  if (scope.elements > 0)
    return fmt::format("error max {} rms {} ({} ulps)", error_text(scope.max_error), error_text(scope.rms_error),
                       brief(scope.max_ulps));
  return output.given_as.empty() ? "no finite value" : output.given_as + " of the model";
}

/// What the bounds that leave roundings to chance do not say.
void add_chance(Section& section, const BoundSummary& bound) {
  const auto note = [&](std::string text) { section.push_back(Paragraph{std::move(text), Style::note}); };
  if (bound.failure_probability)
    note(fmt::format("{} fails with probability {} at most, {}", name_of(bound.kind),
                     bound_text(*bound.failure_probability),
                     bound.condition.empty() ? "over random bits of this program" : "if rounding errors have mean 0"));
  if (!bound.not_applicable.empty())
    note(fmt::format("{} not applicable to {} of {} values: {}", name_of(bound.kind), bound.without_statement,
                     bound.without_statement + bound.checked, bound.not_applicable));
  if (bound.violations > 0 && bound.answers() && !bound.gives_verdict())
    note(fmt::format("{} is exceeded by {} of {} values", name_of(bound.kind), bound.violations, bound.checked));
}

/// "any run at every point of -1:1,0:2: error at most 1.2e-6 in order pairwise (proven, T-77), value between -0.3 and
/// 0.7; 67 % of that bound is the size of the box: smaller boxes are tighter"
std::string describe(const BoxSummary& box) {
  std::string ranges;
  for (const auto& [lower, upper] : box.ranges)
    ranges += fmt::format("{}{}:{}", ranges.empty() ? "" : ",", lower, upper);
  const BoxBound& bound = box.bound;
  if (!std::isfinite(bound.error.value()))
    return fmt::format("any run at every point of {}: not certifiable for so large a box (T-77)", ranges);
  const std::string order =
      box.order == SummationOrder{} ? "with sums in any order" : "in order " + to_string(box.order);
  const std::string text =
      fmt::format("any run at every point of {}: error at most {} {} ({}, T-77), value between {:.3g} and {:.3g}",
                  ranges, bound_text(bound.error.value()), order, name_of(bound.guarantee),
                  -decimal_above(-bound.range.lower(), 3), decimal_above(bound.range.upper(), 3));
  if (!(bound.remainder_share >= 0.05)) return text;
  return text + fmt::format("; {:.0f} % of that bound is the size of the box: smaller boxes are tighter",
                            100.0 * bound.remainder_share);
}

using NamedShare = std::pair<std::string, double>;

/// "stem/Gemm +41%, head/Gemm -12%, block1/Gemm +9%": the three largest in magnitude, without those that round to 0.
std::string largest(std::vector<NamedShare> shares, const char* share_format) {
  std::erase_if(shares, [](const NamedShare& share) { return !(std::abs(share.second) >= 0.005); });
  std::stable_sort(shares.begin(), shares.end(),
                   [](const NamedShare& a, const NamedShare& b) { return std::abs(a.second) > std::abs(b.second); });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(shares.size(), 3); ++i)
    text += (i > 0 ? ", " : "") + shorten(shares[i].first, 24) +
            fmt::format(fmt::runtime(share_format), 100.0 * shares[i].second);
  return text;
}

/// "stem/Gemm 3.1e-6 x 12": the layers with the largest parts of the bound, a local error times its condition number;
/// and how many layers that the output depends on have none, where bounds are infinite.
std::string condition_text(const Breakdown& breakdown) {
  constexpr double next_to_nothing = 1e-30;
  std::vector<const LayerPart*> parts;
  std::size_t unknown = 0;
  for (const LayerPart& part : breakdown.layers) {
    if (part.condition && part.local && *part.condition * *part.local > next_to_nothing) parts.push_back(&part);
    if (part.condition.value_or(0.0) != 0.0 && !part.local) ++unknown;
  }
  if (parts.empty()) return "";
  std::stable_sort(parts.begin(), parts.end(), [](const LayerPart* a, const LayerPart* b) {
    return *a->condition * *a->local > *b->condition * *b->local;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(parts.size(), 3); ++i)
    text += fmt::format("{}{} {} x {}", i > 0 ? ", " : "", shorten(parts[i]->layer, 24), error_text(*parts[i]->local),
                        brief(*parts[i]->condition));
  if (unknown > 0) text += fmt::format("; layers without such a number: {}", unknown);
  return "relative to the output, local error x condition: " + text;
}

/// On a page: the parts of all layers at the sample of the breakdown, and what multiplies what.
Table parts_table(const Breakdown& breakdown) {
  Table table{{{"layer", 0, true},
               {"of the error"},
               {"of adjoint/any-order"},
               {"local error"},
               {"x condition"},
               {"= part of the bound, relative"}},
              {},
              0,
              false};
  double error = std::abs(breakdown.share_of_error(breakdown.inputs)), bound = 0.0;
  for (const LayerPart& part : breakdown.layers) {
    error = std::max(error, std::abs(breakdown.share_of_error(part.part)));
    bound = std::max(bound, part.bound_share.value_or(0.0));
  }
  const auto add = [&](const std::string& name, double of_error, const LayerPart& part) {
    const bool has_condition = part.condition.value_or(0.0) > 0.0;
    const bool has_local = has_condition && part.local.value_or(0.0) >= std::numeric_limits<double>::min();
    if (of_error == 0.0 && !(part.bound_share.value_or(0.0) > 0.0) && !has_condition) return;
    table.rows.push_back(
        {{Name{name}, Bar{of_error, error, true}, part.bound_share ? Cell(Bar{*part.bound_share, bound}) : Cell(),
          has_local ? Cell(Number{*part.local}) : Cell(), has_condition ? Cell(Number{*part.condition}) : Cell(),
          has_local ? Cell(Number{*part.local * *part.condition}) : Cell()},
         false,
         Medium::page});
  };
  add("the inputs", breakdown.share_of_error(breakdown.inputs), {});
  for (const LayerPart& part : breakdown.layers) add(part.layer, breakdown.share_of_error(part.part), part);
  return table;
}

void add_breakdown(Section& section, const Breakdown& breakdown) {
  std::vector<NamedShare> of_error = {{"the inputs", breakdown.share_of_error(breakdown.inputs)}}, of_bound;
  for (const LayerPart& part : breakdown.layers) {
    of_error.emplace_back(part.layer, breakdown.share_of_error(part.part));
    if (part.bound_share) of_bound.emplace_back(part.layer, *part.bound_share);
  }
  const auto note = [&](std::string text) { section.push_back(Paragraph{std::move(text), Style::note}); };
  note(fmt::format("largest parts of the error (sample {}): {}", breakdown.sample,
                   largest(std::move(of_error), " {:+.0f}%")));
  if (!of_bound.empty()) note("largest parts of adjoint/any-order there: " + largest(std::move(of_bound), " {:.0f}%"));
  if (const std::string text = condition_text(breakdown); !text.empty()) note(text);
  section.push_back(parts_table(breakdown));
}

void add_output(Section& section, const Comparison& comparison, const OutputSummary& output) {
  const auto note = [&](std::string text) { section.push_back(Paragraph{std::move(text), Style::note}); };
  const std::vector<BoundSummary>& bounds = output.scope.bounds;
  section.push_back(Entry{output.name, error_facts(output), output.status});
  section.push_back(bound_table(comparison, output.scope));
  for (const BoundSummary& bound : bounds)
    if (bound.is_smallest.value_or(false)) note(fmt::format("smallest in any order: {}", name_of(bound.kind)));
  for (const BoundSummary& bound : bounds)
    if (bound.not_certifiable > 0 && bound.answers())
      note(fmt::format("{}: not certifiable in this arithmetic: {} of {} values", name_of(bound.kind),
                       bound.not_certifiable, bound.checked));
  for (const BoundSummary& bound : bounds)
    if (bound.by_other_steps > 0)
      note(
          fmt::format("{} is exceeded by {} of {} values, though every layer is within its own bounds: the run may "
                      "compute a layer by other steps (docs/ops.md, what follows \"or\")",
                      name_of(bound.kind), bound.by_other_steps, bound.checked));
  if (output.signs) note(signs_text(output));
  const bool has_any_run = output.scope.unbounded[static_cast<std::size_t>(Question::any_run)].has_value();
  if (!has_any_run && output.given_as.empty() && output.scope.elements > 0)
    note("no bound of any run in any order was computed");
  const auto is_partial = [](const BoundSummary& bound) {
    return bound.question == Question::any_run && bound.follows_largest && bound.checked > 0;
  };
  if (const auto partial = std::find_if(bounds.begin(), bounds.end(), is_partial); partial != bounds.end())
    note(fmt::format(
        "any run: bounds of {} of {} values, the largest of the samples; --scalar 'OUTPUT[I]' follows another",
        partial->checked, partial->checked + partial->without_statement));
  for (const BoundSummary& bound : bounds) add_chance(section, bound);
  if (const BoundSummary* folklore = find_bound(output.scope, BoundKind::seed_sum_gamma);
      folklore && folklore->violations > 0)
    note(fmt::format("folklore |f| sum(gamma_n): violated by {} of {} (a heuristic, not a bound)", folklore->violations,
                     folklore->checked));
  if (output.condition)
    note(fmt::format("condition, all layers: median {}, largest {}", brief(output.condition->median),
                     brief(output.condition->max)));
  if (output.box) note(describe(*output.box));
  if (output.breakdown) add_breakdown(section, *output.breakdown);
}

}  // namespace

std::string signs_text(const OutputSummary& output) {
  const SignCounts& signs = *output.signs;
  const std::string counts =
      fmt::format("right in {}, wrong in {}, open in {} samples", signs.right, signs.wrong, signs.open);
  if (!output.least_distance) return "the sign of every run (rounded-shadow): " + counts;
  const BoundSummary* bound = find_bound(output.scope, BoundKind::adjoint_any_order);
  return fmt::format(
      "the sign of every run (adjoint/any-order): {}; the smallest exact |value| is {:.3g}, the bound at most {}",
      counts, *output.least_distance, bound_text(bound ? bound->max_bound : 0.0));
}

Section outputs_section(const Comparison& comparison) {
  Section section = {Paragraph{"Outputs, error from the input on", Style::heading}, Table{bound_columns(), {}, 4}};
  for (const OutputSummary& output : comparison.outputs) add_output(section, comparison, output);
  if (comparison.box_without_number)
    section.push_back(Paragraph{"No bound over the box: no output is one number; name one (--scalar 'OUTPUT[I]')."});
  return section;
}

}  // namespace driftbound::analysis
