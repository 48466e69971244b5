#include "analysis/outputs_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/cost.hpp"

namespace driftbound::analysis {
namespace {

constexpr const char* bound_format = "    {:<8} {:<21} {:<13} {:<7} {:>8} {:>6} {:>8} {:>9} {:>7}\n";

std::string output_line(const OutputSummary& output, const Painter& paint) {
  const ScopeSummary& scope = output.scope;
  const std::string errors = scope.elements == 0
                                 ? why_without_error(output)
                                 : fmt::format("error max {} rms {} ({} ulps)", error_text(scope.max_error),
                                               error_text(scope.rms_error), brief(scope.max_ulps));
  const std::string line = fmt::format("  {:<24} {}", shorten(output.name, 24), errors);
  return fmt::format("{:<92} {}\n", line, paint(mark_of(output.status), colour_of(output.status)));
}

std::string column_heads() {
  return fmt::format(bound_format, "question", "bound", "guarantee", "theorem", "largest", "used", "x error",
                     "remainder", "ms");
}

std::string bound_line(const BoundSummary& bound, std::string_view question, double milliseconds) {
  return fmt::format(bound_format, question, bound.name, name_of(bound.guarantee), bound.theorem,
                     bound.is_silent() ? "-" : bound_text(bound.max_bound),
                     bound.is_silent() ? "-" : brief(bound.max_utilisation),
                     bound.median_bound_over_error ? brief(*bound.median_bound_over_error) : "-",
                     bound.remainder_share ? percent(*bound.remainder_share) : "-", brief(milliseconds));
}

/// The bounds that answer one question; it is named once.
std::string question_lines(const Comparison& comparison, const OutputSummary& output, Question question) {
  std::string text;
  std::string_view words = words_of(question);
  for (const BoundSummary& bound : output.scope.bounds) {
    if (!bound.answers() || bound.question != question) continue;
    text += bound_line(bound, words, milliseconds_a_sample(comparison, bound));
    words = "";
  }
  return text;
}

std::string smallest_line(const OutputSummary& output) {
  for (const BoundSummary& bound : output.scope.bounds)
    if (bound.is_smallest.value_or(false)) return fmt::format("    smallest in any order: {}\n", bound.name);
  return "";
}

std::string indented(const std::string& text) {
  return "    " + wrap(text, 96, 6) + "\n";
}

/// Where a bound for every run is infinite.
std::string not_certifiable_lines(const OutputSummary& output) {
  std::string text;
  for (const BoundSummary& bound : output.scope.bounds)
    if (bound.not_certifiable > 0 && bound.answers())
      text += indented(fmt::format("{}: {}", bound.name, not_certifiable_text(bound)));
  return text;
}

std::string folklore_line(const OutputSummary& output) {
  const BoundSummary* folklore = find_bound(output.scope, "seed-sum-gamma");
  if (!folklore || folklore->violations == 0) return "";
  return fmt::format("    folklore |f| sum(gamma_n): violated by {} of {} (a heuristic, not a bound)\n",
                     folklore->violations, folklore->checked);
}

/// What the bounds that leave roundings to chance do not say.
std::string chance_lines(const OutputSummary& output) {
  std::string text;
  for (const BoundSummary& bound : output.scope.bounds) {
    if (bound.failure_probability)
      text += indented(fmt::format("{} fails with probability {} at most, {}", bound.name,
                                   bound_text(*bound.failure_probability), model_of(bound)));
    if (!bound.not_applicable.empty())
      text += indented(fmt::format("{} not applicable to {} of {} values: {}", bound.name, bound.without_statement,
                                   bound.without_statement + bound.checked, bound.not_applicable));
    if (bound.violations > 0 && bound.answers() && !bound.gives_verdict())
      text += indented(fmt::format("{} is exceeded by {} of {} values", bound.name, bound.violations, bound.checked));
  }
  return text;
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
std::string condition_line(const Breakdown& breakdown) {
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
  return indented("relative to the output, local error x condition: " + text);
}

std::string breakdown_lines(const Breakdown& breakdown) {
  std::vector<NamedShare> of_error = {{"the inputs", breakdown.share_of_error(breakdown.inputs)}}, of_bound;
  for (const LayerPart& part : breakdown.layers) {
    of_error.emplace_back(part.layer, breakdown.share_of_error(part.part));
    if (part.bound_share) of_bound.emplace_back(part.layer, *part.bound_share);
  }
  std::string text = indented(fmt::format("largest parts of the error (sample {}): {}", breakdown.sample,
                                          largest(std::move(of_error), " {:+.0f}%")));
  if (!of_bound.empty())
    text += indented("largest parts of adjoint/any-order there: " + largest(std::move(of_bound), " {:.0f}%"));
  return text + condition_line(breakdown);
}

}  // namespace

std::string doubtful_signs(const Comparison& comparison) {
  std::string text;
  for (const OutputSummary& output : comparison.outputs)
    if (output.signs && output.signs->wrong + output.signs->open > 0)
      text += fmt::format("'{}': {}.\n", shorten(output.name, 40), signs_text(*output.signs));
  return text;
}

std::string box_text(const Comparison& comparison) {
  return comparison.box_without_number
             ? "No bound over the box: no output is one number; name one (--scalar 'OUTPUT[I]').\n"
             : "";
}

std::string outputs_text(const Comparison& comparison, const Painter& paint) {
  std::string text = "\nOutputs, error from the input on:\n" + column_heads();
  for (const OutputSummary& output : comparison.outputs) {
    text += output_line(output, paint);
    text += question_lines(comparison, output, Question::this_run);
    text += question_lines(comparison, output, Question::any_run);
    text += smallest_line(output);
    text += not_certifiable_lines(output);
    if (output.signs) text += indented(signs_text(*output.signs));
    text += chance_lines(output);
    text += folklore_line(output);
    if (output.condition)
      text += fmt::format("    condition, all layers: median {}, largest {}\n", brief(output.condition->median),
                          brief(output.condition->max));
    if (output.box) text += indented(describe(*output.box));
    if (output.breakdown) text += breakdown_lines(*output.breakdown);
  }
  return text + box_text(comparison);
}

}  // namespace driftbound::analysis
