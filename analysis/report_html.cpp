#include <fmt/format.h>

#include <limits>
#include <utility>

#include "analysis/breakdown_chart.hpp"
#include "analysis/chart.hpp"
#include "analysis/cost.hpp"
#include "analysis/markup.hpp"
#include "analysis/outputs_text.hpp"
#include "analysis/replay_text.hpp"
#include "analysis/report.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --ink:#1b1f24; --soft:#667; --paper:#fff; --rule:#d8dde3; --ok:#1a7f37; --warn:#9a6700; --bad:#cf222e;
  --measured:#0550ae; --order:#8250df; --any:#b08800; --accumulated:#0a7d73; --forward:#bc4c00; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6edf3; --soft:#9aa4af; --paper:#0d1117; --rule:#30363d; --ok:#3fb950; --warn:#d29922;
  --bad:#ff7b72; --measured:#79c0ff; --order:#d2a8ff; --any:#e3b341; --accumulated:#56d4c4; --forward:#ffa657; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.15rem; font-weight: 600; } h2 { font-size: 1rem; margin-top: 2rem; } h3 { font-size: .95rem; margin: 1.5rem 0 .3rem; }
.holds, .approaches { color: var(--ok); } .undecided { color: var(--warn); } .violated, .void { color: var(--bad); font-weight: 600; }
.about, .note { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; } th, td { padding: 3px 9px; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid var(--rule); text-align: right; } tr:hover td { background: color-mix(in srgb, var(--rule) 40%, transparent); }
td.name, th.name { text-align: left; } td.group, th.group { border-left: 1px solid var(--rule); }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } .tick { text-anchor: end; } .layer { text-anchor: end; } .middle { text-anchor: middle; }
.part { fill: var(--measured); } .share { fill: var(--any); } tr.folklore td { color: var(--soft); }
.legend { font-size: 12px; } .grid { stroke: var(--rule); stroke-width: .6; } .axis { stroke: var(--soft); }
polyline { fill: none; stroke-width: 1.6; } .measured circle { fill: var(--measured); } .accumulated circle { fill: var(--accumulated); }
.order * { stroke: var(--order); fill: var(--order); } .any * { stroke: var(--any); fill: var(--any); } .forward * { stroke: var(--forward); fill: var(--forward); }
.order polyline, .any polyline, .forward polyline { fill: none; } .any polyline { stroke-dasharray: 6 3; } .forward polyline { stroke-dasharray: 2 3; }
pre { font-size: 12.5px; color: var(--soft); white-space: pre-wrap; }
)";

/// Numbers of a chart: below 0 where there is none.
double largest_error(const ScopeSummary& scope) {
  return scope.elements > 0 ? scope.max_error : -1.0;
}
double largest_bound(const ScopeSummary& scope, std::string_view name) {
  const BoundSummary* bound = find_bound(scope, name);
  return bound && !bound->is_silent() ? bound->max_bound : -1.0;
}

std::string number(double x) {
  return fmt::format("{:.3g}", x);
}

/// An upper bound: rounded up.
std::string number_above(double x) {
  return number(decimal_above(x, 3));
}

/// Of elements that have errors: nothing where there are none.
std::string measured(const ScopeSummary& scope, std::string text) {
  return scope.elements > 0 ? std::move(text) : "–";
}

std::string share(const ScopeSummary& scope, std::string_view name) {
  const BoundSummary* bound = find_bound(scope, name);
  return bound ? fmt::format("<span title=\"{}, {}\">{}</span>", name_of(bound->guarantee), bound->theorem,
                             number(bound->max_utilisation))
               : "–";
}

std::string folklore(const ScopeSummary& scope, std::string_view name) {
  const BoundSummary* bound = find_bound(scope, name);
  if (!bound) return "–";
  return bound->violations == 0
             ? "0"
             : fmt::format("<span class=\"violated\">{} of {}</span>", bound->violations, bound->checked);
}

/// What a verdict looks like on the page.
std::string_view class_of(Status status) {
  return name_of(status == Status::not_checked ? Status::undecided : status);
}

std::string layer_row(const LayerSummary& layer) {
  const ScopeSummary &local = layer.local, &whole = layer.accumulated;
  return fmt::format(
      "<tr><td>{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td><td>{}</td><td>{}</td>"
      "<td class=\"group\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
      "<td class=\"group\">{}</td><td>{}</td><td class=\"group name {}\">{}</td></tr>\n",
      layer.index, escape_markup(layer.name), escape_markup(layer.op),
      layer.fan_in > 0 ? std::to_string(layer.fan_in) : "–", layer.kappa ? number(layer.kappa->median) : "–",
      measured(local, number(local.max_error)), measured(local, number(local.max_ulps)),
      measured(local, share(local, any_order_bound(local))), measured(local, share(local, declared_order_bound(local))),
      folklore(local, "seed-gamma"), measured(whole, number(whole.max_error)), measured(whole, share(whole, "forward")),
      class_of(layer.status), name_of(layer.status));
}

std::string layer_table(const Comparison& comparison) {
  std::string text =
      "<div class=\"scroll\"><table><tr><th></th><th></th><th></th><th></th><th></th><th class=\"group\" "
      "colspan=\"5\">this layer alone</th>"
      "<th class=\"group\" colspan=\"2\">from the input</th><th class=\"group\"></th></tr>\n"
      "<tr><th>#</th><th class=\"name\">layer</th><th class=\"name\">op</th><th>n</th><th>kappa</th><th "
      "class=\"group\">error</th><th>ulps</th>"
      "<th>any</th><th>order</th><th>folk!</th><th class=\"group\">error</th><th>fwd</th><th class=\"group "
      "name\">verdict</th></tr>\n";
  for (const LayerSummary& layer : comparison.layers) text += layer_row(layer);
  return text + "</table></div>\n";
}

std::string violated_of(const BoundSummary& bound) {
  if (bound.violations == 0) return fmt::format("0 of {}", bound.checked);
  return fmt::format("<span class=\"violated\">{} of {}</span>", bound.violations, bound.checked);
}

std::string bound_row(const Comparison& comparison, const BoundSummary& bound) {
  return fmt::format(
      "<tr{}><td class=\"name\">{}</td><td class=\"name\">{}</td><td class=\"name\">{}</td><td "
      "class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
      bound.gives_verdict() ? "" : " class=\"folklore\"", words_of(bound.question),
      escape_markup(bound.name) + (bound.is_smallest.value_or(false) ? " (smallest)" : ""), name_of(bound.guarantee),
      bound.theorem.empty() ? "–" : escape_markup(bound.theorem),
      bound.is_silent() ? "–" : number_above(bound.max_bound), bound.is_silent() ? "–" : number(bound.max_utilisation),
      bound.median_bound_over_error ? number(*bound.median_bound_over_error) : "–",
      bound.remainder_share ? escape_markup(percent(*bound.remainder_share)) : "–", violated_of(bound),
      number(milliseconds_a_sample(comparison, bound)));
}

std::string chance_notes(const ScopeSummary& scope) {
  std::string text;
  for (const BoundSummary& bound : scope.bounds) {
    if (bound.failure_probability)
      text += fmt::format("<p class=\"note\">{} fails with probability {} at most, {}.</p>\n",
                          escape_markup(bound.name), number_above(*bound.failure_probability), model_of(bound));
    if (!bound.not_applicable.empty())
      text += fmt::format("<p class=\"note\">{} does not apply to {} of {} values: {}.</p>\n",
                          escape_markup(bound.name), bound.without_statement, bound.without_statement + bound.checked,
                          escape_markup(bound.not_applicable));
    if (bound.not_certifiable > 0 && bound.answers())
      text += fmt::format("<p class=\"note\">{}: {}.</p>\n", escape_markup(bound.name), not_certifiable_text(bound));
  }
  return text;
}

/// Condition numbers at the sample of the breakdown.
std::string condition_table(const Breakdown& breakdown) {
  std::string rows;
  for (const LayerPart& part : breakdown.layers) {
    if (!part.condition || !(*part.condition > 0.0)) continue;
    if (part.local && *part.local < std::numeric_limits<double>::min()) continue;
    rows += fmt::format("<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        escape_markup(part.layer), part.local ? number(*part.local) : "–", number(*part.condition),
                        part.local ? number(*part.local * *part.condition) : "–");
  }
  if (rows.empty()) return "";
  return "<p class=\"about\">What multiplies what there: local error × condition = part of the bound, relative to the "
         "output</p>\n<div class=\"scroll\"><table><tr><th class=\"name\">layer</th><th>local error</th><th>condition"
         "</th><th>product</th></tr>\n" +
         rows + "</table></div>\n";
}

/// Bounds that give verdicts by the question they answer, then folklore.
std::string bound_table(const Comparison& comparison, const ScopeSummary& scope) {
  std::string text =
      "<div class=\"scroll\"><table><tr><th class=\"name\">question</th><th class=\"name\">bound</th><th "
      "class=\"name\">guarantee</th><th class=\"name\">theorem</th><th>largest</th><th>used</th><th>median "
      "bound/error</th><th>remainder</th><th>violated</th><th>ms a sample</th></tr>\n";
  for (const Question question : {Question::this_run, Question::any_run})
    for (const BoundSummary& bound : scope.bounds)
      if (bound.answers() && bound.question == question) text += bound_row(comparison, bound);
  for (const BoundSummary& bound : scope.bounds)
    if (!bound.answers()) text += bound_row(comparison, bound);
  return text + "</table></div>\n" + chance_notes(scope);
}

std::string output_section(const Comparison& comparison, const OutputSummary& output) {
  const ScopeSummary& scope = output.scope;
  const std::string errors =
      scope.elements == 0 ? why_without_error(output)
                          : fmt::format("error max {}, rms {}, {} units in the last place", number(scope.max_error),
                                        number(scope.rms_error), number(scope.max_ulps));
  std::string text = fmt::format("<h3>{} <span class=\"{}\">{}</span></h3>\n<p class=\"about\">{}</p>\n",
                                 escape_markup(output.name), class_of(output.status), name_of(output.status), errors);
  text += bound_table(comparison, scope);
  if (output.signs) text += fmt::format("<p class=\"about\">{}</p>\n", signs_text(*output.signs));
  if (output.condition)
    text += fmt::format("<p class=\"about\">condition, all layers: median {}, largest {}</p>\n",
                        number(output.condition->median), number(output.condition->max));
  if (output.box) text += fmt::format("<p class=\"about\">{}</p>\n", escape_markup(describe(*output.box)));
  if (!output.breakdown) return text;
  return text +
         fmt::format(
             "<p class=\"about\">Where the largest error, {} at sample {}, comes from; and what is charged "
             "where in the "
             "bound</p>\n<div class=\"scroll\">{}</div>\n",
             number(output.breakdown->error), output.breakdown->sample, breakdown_chart(*output.breakdown)) +
         condition_table(*output.breakdown);
}

std::string output_sections(const Comparison& comparison) {
  std::string text;
  for (const OutputSummary& output : comparison.outputs) text += output_section(comparison, output);
  return text;
}

std::string chart(const Comparison& comparison) {
  std::vector<std::string> names;
  std::vector<ChartSeries> series = {{"measured, this layer", "measured", false, {}},
                                     {"declared-order bound", "order", true, {}},
                                     {"any-order bound", "any", true, {}},
                                     {"measured, from input", "accumulated", false, {}},
                                     {"forward bound", "forward", true, {}}};
  for (const LayerSummary& layer : comparison.layers) {
    names.push_back(layer.name);
    series[0].values.push_back(largest_error(layer.local));
    series[1].values.push_back(largest_bound(layer.local, declared_order_bound(layer.local)));
    series[2].values.push_back(largest_bound(layer.local, any_order_bound(layer.local)));
    series[3].values.push_back(largest_error(layer.accumulated));
    series[4].values.push_back(largest_bound(layer.accumulated, "forward"));
  }
  return log_chart(names, series);
}

}  // namespace

std::string to_html(const Report& report) {
  const ReportContext& c = report.context;
  const Comparison& comparison = report.comparison;
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\"><meta name=\"viewport\" "
      "content=\"width=device-width\">"
      "<title>driftbound: {}</title><style>{}</style></head><body>\n",
      escape_markup(c.model_file), style);
  html += fmt::format("<h1 class=\"{}\">{}</h1>\n", name_of(comparison.verdict), escape_markup(headline(report)));
  html += fmt::format("<p class=\"about\">{} · {} · {} in order {} · {} samples · {} · driftbound {}</p>\n",
                      escape_markup(c.model_file), escape_markup(backend_text(c)), escape_markup(c.arithmetic.name),
                      to_string(c.arithmetic.order), comparison.samples, c.date, DRIFTBOUND_VERSION);
  if (const std::string observer = observer_text(c); !observer.empty())
    html += fmt::format("<p class=\"about\">{}</p>\n", observer);
  if (c.interrupted)
    html += fmt::format("<p class=\"undecided\">Interrupted after {} of {} samples; this is the report on those.</p>\n",
                        comparison.samples, c.requested_samples);
  for (const std::string& note : {doubtful_signs(comparison), inputs_text(c), box_text(comparison)})
    if (!note.empty()) html += fmt::format("<p class=\"about\">{}</p>\n", escape_markup(note));
  if (const std::string replay = replay_text(report); !replay.empty())
    html += fmt::format("<p{}>{}</p>\n", first_difference(comparison) ? " class=\"violated\"" : " class=\"about\"",
                        escape_markup(replay));
  html += "<h2>Largest error and bound of every layer</h2>\n<div class=\"scroll\">" + chart(comparison) + "</div>\n";
  html += "<h2>Layers</h2>\n" + layer_table(comparison) + "<h2>Outputs, from the input on</h2>\n" +
          output_sections(comparison);
  html += fmt::format("<p class=\"about\">{}</p>\n", escape_markup(reference_text(comparison)));
  for (const std::string& assumption : comparison.assumptions)
    html += fmt::format("<p class=\"note\">Assumes {}</p>\n", escape_markup(assumption));
  return html + fmt::format("<h2>Reading this</h2>\n<pre>{}</pre>\n</body></html>\n",
                            escape_markup(explain_columns(Words::page)));
}

}  // namespace driftbound::analysis
