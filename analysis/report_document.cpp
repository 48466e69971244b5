#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "analysis/judge_records.hpp"
#include "analysis/report_parts.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

Cell share_cell(const ScopeSummary& scope, BoundKind kind) {
  const BoundSummary* bound = find_bound(scope, kind);
  if (!bound || scope.elements == 0) return {};
  return Number{bound->max_utilisation, Form::ratio, fmt::format("{}, {}", name_of(bound->guarantee), bound->theorem)};
}

/// Of elements that have errors: nothing where there are none.
Cell error_cell(const ScopeSummary& scope, double error, Form form = Form::error) {
  return scope.elements > 0 ? Cell(Number{error, form}) : Cell();
}

/// The name below that of the record's module.
std::string name_in_group(const LayerSummary& layer) {
  const std::string prefix = layer.record ? layer.record->module + "/" : "";
  return layer.record && layer.name.starts_with(prefix) ? layer.name.substr(prefix.size()) : layer.name;
}

Cell reading_cell(const LayerSummary& layer) {
  return layer.nearest_reading ? Cell(to_string(layer.nearest_reading->nearest)) : Cell();
}

Row layer_row(const LayerSummary& layer) {
  const ScopeSummary &local = layer.local, &whole = layer.accumulated;
  const BoundSummary* folklore = find_bound(local, BoundKind::seed_gamma);
  return {{static_cast<std::int64_t>(layer.index), Name{name_in_group(layer)}, Name{layer.op},
           layer.fan_in > 0 ? Cell(layer.fan_in) : Cell(), layer.kappa ? Cell(Number{layer.kappa->median}) : Cell(),
           error_cell(local, local.max_error), error_cell(local, local.max_ulps, Form::ratio),
           share_cell(local, any_order_bound(local)), share_cell(local, declared_order_bound(local)),
           folklore ? Cell(Violations{folklore->violations, folklore->checked}) : Cell(),
           error_cell(whole, whole.max_error), share_cell(whole, BoundKind::forward), reading_cell(layer),
           layer.status}};
}

/// A line with the name of a module, above the records of its calls.
Row group_row(const std::string& module, std::size_t columns) {
  Row row{std::vector<Cell>(columns, std::string())};
  row.cells[1] = Name{module.empty() ? "(no module)" : module};
  return row;
}

/// Records are judged by themselves; their names take the room.
void leave_out_errors_from_input(Table& table) {
  constexpr std::ptrdiff_t first = 10, last = 12;
  constexpr std::size_t width_of_names = 32;
  table.columns[1].width = width_of_names;
  table.columns.erase(table.columns.begin() + first, table.columns.begin() + last);
  for (Row& row : table.rows) row.cells.erase(row.cells.begin() + first, row.cells.begin() + last);
  table.groups.erase(table.groups.begin() + 2);
}

/// Whether nothing says how errors add up from the input on.
bool is_judged_alone(const Comparison& comparison) {
  return comparison.outputs.empty() &&
         std::none_of(comparison.layers.begin(), comparison.layers.end(),
                      [](const LayerSummary& layer) { return layer.accumulated.elements > 0; });
}

Section layers_section(const Comparison& comparison) {
  Table table{{{"#", 3},
               {"layer", 18, true},
               {"op", 8, true},
               {"n", 4},
               {"kappa", 6},
               {"error", 7},
               {"ulps", 5},
               {"any", 5},
               {"order", 5},
               {"folk!", 6},
               {"error", 7},
               {"fwd", 6},
               {"nearest reading", 0, true, {}, Medium::page},
               {"", 0, true, "verdict"}},
              {},
              0,
              true,
              {{"", 5}, {"this layer alone", 5}, {"from input", 2}, {"", 2}}};
  const std::string* module = nullptr;
  for (const LayerSummary& layer : comparison.layers) {
    if (layer.record && (module == nullptr || *module != layer.record->module)) {
      module = &layer.record->module;
      table.rows.push_back(group_row(*module, table.columns.size()));
    }
    table.rows.push_back(layer_row(layer));
  }
  if (is_judged_alone(comparison)) leave_out_errors_from_input(table);
  return {Paragraph{"Layers", Style::heading, Medium::page}, std::move(table)};
}

/// Numbers of a chart: below 0 where there is none.
double largest_error(const ScopeSummary& scope) {
  return scope.elements > 0 ? scope.max_error : -1.0;
}
double largest_bound(const ScopeSummary& scope, BoundKind kind) {
  const BoundSummary* bound = find_bound(scope, kind);
  return bound && !bound->is_silent() ? bound->max_bound : -1.0;
}

Section chart_section(const Comparison& comparison) {
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
    series[4].values.push_back(largest_bound(layer.accumulated, BoundKind::forward));
  }
  return {Paragraph{"Largest error and bound of every layer", Style::heading, Medium::page},
          Figure{log_chart(names, series)}};
}

/// What the folklore of that layer leaves out: that results are stored in fewer digits than sums have; that operands are
/// rounded, where they are and nothing cancels; else kappa.
std::string_view forgotten_by_folklore(const LayerSummary& layer, const ArithmeticModel& arithmetic) {
  constexpr double cancels = 2.0;
  const bool rounds_operands = format(arithmetic.input).precision < format(arithmetic.accumulator).precision;
  if (stores_narrowly(arithmetic)) return "that results are stored in fewer digits";
  const bool is_cancelling = !layer.kappa || layer.kappa->median > cancels;
  return rounds_operands && !is_cancelling ? "that operands are rounded" : "kappa";
}

std::string folklore_text(const Report& report) {
  std::int64_t violations = 0, checked = 0, most_violations = 0;
  const LayerSummary* most = nullptr;
  for (const LayerSummary& layer : report.comparison.layers) {
    const BoundSummary* folklore = find_bound(layer.local, BoundKind::seed_gamma);
    if (!folklore) continue;
    violations += folklore->violations;
    checked += folklore->checked;
    if (folklore->violations > most_violations) {
      most_violations = folklore->violations;
      most = &layer;
    }
  }
  if (!most) return "";
  return fmt::format("Folklore |error| <= gamma_n |y| is violated by {} of {} sums, most in '{}': it forgets {}.",
                     violations, checked, shorten(most->name, 40),
                     forgotten_by_folklore(*most, report.context.arithmetic));
}

/// What random elements can have missed.
void add_statement_of_audit(const Comparison& comparison, Section& section) {
  constexpr double miss = 1e-9;
  std::int64_t drawn = 0, in_part = 0, fewest = 0, most = 0;
  for (const LayerSummary& layer : comparison.layers) {
    if (!layer.record) continue;
    const RecordSummary& record = *layer.record;
    if (record.draws > 0) {
      ++drawn;
      fewest = fewest == 0 ? record.draws : std::min(fewest, record.draws);
      most = std::max(most, record.draws);
    } else if (record.judged + record.infinite + record.lacking < record.elements) {
      ++in_part;
    }
  }
  if (drawn > 0)
    section.push_back(
        Paragraph{fmt::format("Audit: of {} results {} elements were drawn at random, and those judged that checks of "
                              "all elements suspect. If more than {:.2g} % of the elements of one exceeded "
                              "their bound, this would have missed it with probability 1e-9.",
                              drawn, fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most),
                              100.0 * share_missed_with(miss, fewest))});
  if (in_part > 0)
    section.push_back(Paragraph{
        fmt::format("{} results are recorded in part: what is not recorded of them is not judged.", in_part)});
}

/// What of a recording was judged, and what was not.
Section about_recording(const Comparison& comparison) {
  Section section;
  if (!comparison.run) return section;
  const RunSummary& run = *comparison.run;
  for (const std::string& problem : run.problems) section.push_back(Paragraph{problem, Style::warning});
  for (const NotJudged& reason : run.reasons)
    section.push_back(Paragraph{fmt::format("Not judged: {} ({}, first '{}'): {}.", reason.op,
                                            reason.count == 1 ? "once" : fmt::format("{} times", reason.count),
                                            shorten(reason.first, 40), reason.why),
                                Style::warning});
  std::int64_t lacking = 0, infinite = 0;
  for (const LayerSummary& layer : comparison.layers) {
    lacking += layer.record ? layer.record->lacking : 0;
    infinite += layer.record ? layer.record->infinite : 0;
  }
  if (lacking > 0)
    section.push_back(Paragraph{
        fmt::format("Not judged: {} elements whose operands are recorded in part, without what they need.", lacking),
        Style::warning});
  if (infinite > 0)
    section.push_back(Paragraph{fmt::format(
        "{} elements are infinite, or no numbers, exactly as their operands make them (masks, mostly).", infinite)});
  add_statement_of_audit(comparison, section);
  if (!run.not_from_input.empty())
    section.push_back(Paragraph{fmt::format(
        "{} from the input on: {}.", run.from_input == 0 ? "Not judged" : "Without bounds", run.not_from_input)});
  if (!run.given.empty())
    section.push_back(Paragraph{
        fmt::format("From the input on takes results of {} records as given, as these are not judged (first '{}').",
                    run.given.size(), shorten(run.given.front(), 40))});
  return section;
}

/// "'fc2' is a segment of 5 nodes from 'x' on" and, where these are few, which.
std::string segment_text(const std::string& layer, const SegmentParts& parts) {
  constexpr std::size_t few = 4;
  std::vector<std::string> from;
  for (std::size_t i = 0; i < std::min(parts.from.size(), few); ++i)
    from.push_back("'" + shorten(parts.from[i], 40) + "'");
  if (parts.from.size() > few) from.push_back(fmt::format("{} more", parts.from.size() - few));
  std::string text = fmt::format("'{}' is a segment of {} nodes", shorten(layer, 40), parts.nodes.size());
  if (!from.empty()) text += fmt::format(" from {} on", fmt::join(from, ", "));
  if (parts.nodes.size() > few) return text;
  std::vector<std::string> names;
  for (const std::string& name : parts.nodes) names.push_back("'" + shorten(name, 40) + "'");
  return text + fmt::format(": {}", fmt::join(names, ", "));
}

/// Which of the model's layers a trace records, and as what.
void add_recorded(const RecordedLayers& recorded, const Comparison& comparison, Section& section) {
  constexpr std::size_t most_segments = 8, most_names = 12;
  const auto add = [&](std::string text, Style style = Style::plain) {
    section.push_back(Paragraph{std::move(text), style});
  };
  if (recorded.recorded < recorded.nodes) {
    const std::size_t judged = recorded.recorded + recorded.inside;
    const std::size_t others = recorded.nodes - std::min(judged, recorded.nodes);
    std::string text = fmt::format("Recorded: {} of {} layers", recorded.recorded, recorded.nodes);
    if (recorded.inside > 0)
      text += others == 0 ? std::string("; the others lie inside segments")
                          : fmt::format("; {} others lie inside segments", recorded.inside);
    if (others > 0) text += fmt::format("; no recorded layer depends on {}, not judged", others);
    add(text + ".");
  }
  std::size_t said = 0, segments = 0;
  for (std::size_t i = 0; i < recorded.segments.size() && i < comparison.layers.size(); ++i) {
    if (recorded.segments[i].nodes.empty() || ++segments > most_segments) continue;
    ++said;
    add(segment_text(comparison.layers[i].name, recorded.segments[i]) + ".");
  }
  if (segments > said) add(fmt::format("{} more segments; JSON and the page list all layers.", segments - said));
  for (const std::string by : {"module path", "order and shape"}) {
    std::vector<std::string> names;
    std::size_t count = 0;
    for (const MatchedName& one : recorded.matched)
      if (one.by == by && ++count <= most_names)
        names.push_back(fmt::format("'{}' = '{}'", shorten(one.layer, 40), shorten(one.record, 40)));
    if (names.empty()) continue;
    if (count > names.size()) names.push_back(fmt::format("{} more", count - names.size()));
    add(fmt::format("Found by {} (layer = record): {}.", by, fmt::join(names, ", ")));
  }
  const auto add_left_aside = [&](const std::vector<std::string>& records, std::string_view why, Style style) {
    if (!records.empty()) add(fmt::format("Left aside, as {}: {}.", why, list_of(records, most_names)), style);
  };
  add_left_aside(recorded.copies, "they hold the numbers of other records", Style::plain);
  add_left_aside(recorded.unplaced, "no layer is named so, and by order and shape they may be of none, or of several",
                 Style::warning);
  if (!recorded.outputs_left_out.empty())
    add(fmt::format("Outputs that are not recorded, and not judged: {}.", fmt::join(recorded.outputs_left_out, ", ")),
        Style::warning);
}

/// What stands beside the verdict.
Section remarks(const Report& report, const ExitRules& rules) {
  Section section;
  const auto add = [&](const std::string& text, Style style = Style::plain) {
    if (!text.empty()) section.push_back(Paragraph{text, style});
  };
  const Comparison& comparison = report.comparison;
  section = about_recording(comparison);
  if (report.context.recorded) add_recorded(*report.context.recorded, comparison, section);
  for (const std::string& node : report.context.left_out)
    add("Outputs behind this node are left out, as this version does not support it: " + node, Style::warning);
  if (!report.context.bounds_left_out.empty())
    add(fmt::format("Left out, as they would take about {:.3g} GB of memory (--memory allows more): {}.",
                    static_cast<double>(report.context.memory_needed) / 1e9,
                    fmt::join(report.context.bounds_left_out, ", ")),
        Style::warning);
  if (report.context.interrupted)
    add(fmt::format("Interrupted after {} of {} samples; this is the report on those.", comparison.samples,
                    report.context.requested_samples),
        Style::warning);
  for (const OutputSummary& output : comparison.outputs)
    if (output.signs && output.signs->wrong + output.signs->open > 0)
      add(fmt::format("'{}': {}.", shorten(output.name, 40), signs_text(output)));
  for (const OpenQuestion& open : comparison.open_questions) add(open_question_text(report, open.question) + ".");
  for (const Question question : rules.required) {
    const bool is_said = std::any_of(comparison.open_questions.begin(), comparison.open_questions.end(),
                                     [&](const OpenQuestion& open) { return open.question == question; });
    if (!is_said && !is_answered(comparison, question)) add(open_question_text(report, question) + ".", Style::warning);
  }
  add(readings_text(comparison), Style::wrong);
  add(decided_by_some_text(comparison));
  add(replay_text(report), first_difference(comparison) ? Style::wrong : Style::plain);
  add(folklore_text(report));
  return section;
}

/// Layers with the same finding.
struct KernelGroup {
  KernelFinding finding;
  std::string text;
  std::vector<std::string> layers;
};

/// "nearest: fp32, …: 2 numbers differ, by 1 ulp at most, the first is number 17 of the result"
std::string nearest_text(const KernelDifference& nearest, std::int64_t k) {
  return fmt::format("nearest: {}: {} number{} differ{}, by {:.3g} ulp at most, the first at place {} of the result",
                     describe(nearest.kernel, k), nearest.differing, nearest.differing == 1 ? "" : "s",
                     nearest.differing == 1 ? "s" : "", nearest.most_ulps, nearest.first);
}

std::vector<KernelGroup> kernel_groups(const Comparison& comparison) {
  std::vector<KernelGroup> groups;
  for (const LayerSummary& layer : comparison.layers) {
    if (!layer.kernel || !layer.kernel->why_not.empty()) continue;
    const KernelFinding& found = *layer.kernel;
    std::string text = found.kernel ? describe(*found.kernel, found.k) : "no member of the family";
    if (found.nearest) text += "; " + nearest_text(*found.nearest, found.k);
    for (const KernelShare& other : found.others)
      text += fmt::format("; {} numbers: {}", other.numbers, describe(other.kernel, found.k));
    if (found.kernel && !found.tells())
      text = fmt::format("does not tell: {} of {} members fit, such as {}", found.members_left, found.family, text);
    const auto is_it = [&](const KernelGroup& known) {
      return known.text == text && known.finding.equal_bits == found.equal_bits &&
             known.finding.compared == found.compared && known.finding.members_left == found.members_left;
    };
    auto known = std::find_if(groups.begin(), groups.end(), is_it);
    if (known == groups.end()) known = groups.insert(groups.end(), KernelGroup{found, text, {}});
    known->layers.push_back(layer.name);
  }
  return groups;
}

/// How many members would give all numbers by chance; nothing where none does.
Cell chance_cell(const KernelFinding& found) {
  if (!found.kernel) return {};
  constexpr double least = 1e-99;
  return found.estimate_chance_hits < least ? "< 1e-99" : fmt::format("{:.0e}", found.estimate_chance_hits);
}

/// Which kernels give the bits of the products.
Section kernels_section(const Comparison& comparison) {
  constexpr std::size_t most_names = 3, width_of_layers = 26;
  Table table{{{"layers", width_of_layers, true},
               {"equal", 8},
               {"of", 8},
               {"left", 5},
               {"family", 6},
               {"by chance", 9},
               {"kernel", 10, true}}};
  std::vector<std::string> unexplained;
  for (const KernelGroup& group : kernel_groups(comparison)) {
    const KernelFinding& found = group.finding;
    table.rows.push_back({{Name{list_of(group.layers, most_names)}, found.equal_bits, found.compared,
                           found.members_left, found.family, chance_cell(found), group.text}});
    if (!found.kernel) unexplained.insert(unexplained.end(), group.layers.begin(), group.layers.end());
  }
  if (table.rows.empty()) return {};
  Section section = {
      Paragraph{"Kernels", Style::heading},
      Paragraph{
          "How products, sums and means were formed, from the bits of the run: the simplest member of a family that "
          "gives all numbers. Equal of so many numbers; left: members that give all of them, of so many in the "
          "family; by chance: how many would (docs/explain.md)."},
      std::move(table)};
  if (!unexplained.empty())
    section.push_back(Paragraph{
        fmt::format(
            "No member of the family gives the numbers of {}: they were formed in another way, or were changed.",
            list_of(unexplained, most_names)),
        Style::warning});
  return section;
}

/// What ran the model: "cpu", "cuda (NVIDIA H200, gemm cublas)", "cuda (NVIDIA H200, gemm cublaslt, algorithm 1)".
std::string backend_text(const Provenance& run) {
  const std::string backend = backend_of(run), gemm = gemm_of(run);
  if (backend == "cpu") return backend;
  std::string text = run.device;
  if (!gemm.empty()) text += (text.empty() ? "gemm " : ", gemm ") + gemm;
  if (const auto algorithm = run.details.find("algorithm"); algorithm != run.details.end())
    text += ", algorithm " + algorithm->second;
  return text.empty() ? backend : fmt::format("{} ({})", backend, text);
}

/// "operands tf32, sums and results fp32"
std::string formats_text(const ReportContext& context) {
  const ArithmeticModel& arithmetic = context.arithmetic;
  const auto name = [](FormatId id) { return std::string(format(id).name); };
  const std::string operands = name(arithmetic.input), sums = name(arithmetic.accumulator);
  const std::string results = context.results.empty() ? name(arithmetic.output) : context.results;
  if (operands == sums && sums == results) return "operands, sums and results " + sums;
  if (sums == results) return fmt::format("operands {}, sums and results {}", operands, sums);
  return fmt::format("operands {}, sums {}, results {}", operands, sums, results);
}

Section about_run(const Report& report) {
  const ReportContext& c = report.context;
  if (const auto& run = report.comparison.run) {
    std::vector<std::string> names;
    for (const ArithmeticModel& arithmetic : run->arithmetics) names.push_back(arithmetic.name);
    return {Paragraph{fmt::format("{} · {} · {} · {} records, {} views among their results", shorten(c.model_file, 44),
                                  shorten(backend_text(c.provenance), 48), fmt::join(names, ", "), run->records,
                                  run->views)}};
  }
  Section section = {Paragraph{fmt::format("{} · {} · {} in order {} · {} samples", shorten(c.model_file, 44),
                                           shorten(backend_text(c.provenance), 48), c.arithmetic.name,
                                           to_string(c.arithmetic.order), report.comparison.samples)},
                     Paragraph{"Formats: " + formats_text(c) + "."}};
  if (!c.declared.empty())
    section.push_back(
        Paragraph{fmt::format("The model declares {} results; this run stores {} between nodes, so that its errors "
                              "are not those of a run that stores {}.",
                              c.declared, c.stored, c.declared),
                  Style::warning});
  if (c.provenance.observer_effect != ObserverEffect::not_checked)
    section.push_back(Paragraph{fmt::format("recorded samples' outputs with and without capture: {}",
                                            c.provenance.observer_effect == ObserverEffect::none
                                                ? "identical"
                                                : "CHANGED (unobserved, it computes otherwise)")});
  if (!c.rounded_inputs.empty())
    section.push_back(Paragraph{
        fmt::format("The inputs are {}: rounding them is part of every error from the input on.", c.rounded_inputs)});
  return section;
}

Section what_it_stands_on(const Comparison& comparison) {
  Section section = {Paragraph{reference_text(comparison)}};
  for (const std::string& assumption : comparison.assumptions) section.push_back(Paragraph{"Assumes " + assumption});
  return section;
}

Section explanation() {
  return {Paragraph{"Reading this", Style::heading, Medium::page},
          Paragraph{explain_columns(Medium::text), Style::explanation, Medium::text},
          Paragraph{explain_columns(Medium::page), Style::explanation, Medium::page}};
}

Table records_of(const Comparison& comparison) {
  Table table;
  for (const char* head :
       {"layer", "op", "fan_in", "scope", "max_error", "rms_error", "max_ulps", "bound", "guarantee", "max_bound",
        "max_utilisation", "violations", "undecided", "checked", "status", "failure_probability", "condition"})
    table.columns.push_back({head});
  for (const ScopeOf& one : scopes_of(comparison)) {
    const std::optional<KappaSummary>& condition = one.layer ? one.layer->kappa : one.output->condition;
    for (const BoundSummary& bound : one.summary.bounds)
      table.rows.push_back(
          {{Name{one.name()}, one.layer ? one.layer->op : "", one.layer ? one.layer->fan_in : 0,
            std::string(name_of(one.scope)), Number{one.summary.max_error}, Number{one.summary.rms_error},
            Number{one.summary.max_ulps}, std::string(name_of(bound.kind)), std::string(name_of(bound.guarantee)),
            Number{bound.max_bound}, Number{bound.max_utilisation}, bound.violations, bound.undecided, bound.checked,
            one.status(), bound.failure_probability ? Cell(Number{*bound.failure_probability}) : Cell(),
            condition ? Cell(Number{condition->median}) : Cell()}});
  }
  return table;
}

/// "running: 1 violated, 0 undecided of 64; not finite: 2", of what one layer or output is held against.
std::string failure_text(std::initializer_list<const ScopeSummary*> scopes,
                         const std::optional<NearestReading>& reading = std::nullopt) {
  std::vector<std::string> parts;
  std::int64_t non_finite = 0;
  for (const ScopeSummary* scope : scopes) {
    for (const BoundSummary& bound : scope->bounds)
      if (bound.is_improbable() || (bound.gives_verdict() && bound.violations + bound.undecided > 0))
        parts.push_back(fmt::format("{}: {} violated, {} undecided of {}", name_of(bound.kind), bound.violations,
                                    bound.undecided, bound.checked));
    non_finite = std::max(non_finite, scope->non_finite);
  }
  if (reading && reading->is_decisive) parts.push_back(describe(*reading));
  if (non_finite > 0) parts.push_back(fmt::format("not finite: {}", non_finite));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<Case> cases_of(const Report& report, const ExitRules& rules) {
  const Comparison& comparison = report.comparison;
  std::vector<Case> cases = {{"report", "verdict", comparison.verdict, headline(report)}};
  if (report.context.interrupted)
    cases.push_back(
        {"report", "all samples", Status::undecided,
         fmt::format("interrupted after {} of {} samples", comparison.samples, report.context.requested_samples)});
  for (const LayerSummary& layer : comparison.layers)
    cases.push_back(
        {"layer", layer.name, layer.status, failure_text({&layer.local, &layer.accumulated}, layer.nearest_reading)});
  for (const OutputSummary& output : comparison.outputs) {
    const bool is_open = output.status == Status::undecided && comparison.verdict < Status::undecided;
    cases.push_back(
        {"output", output.name, is_open ? Status::not_checked : output.status, failure_text({&output.scope})});
  }
  for (const Question question : rules.required) {
    const bool is_known = is_answered(comparison, question);
    cases.push_back({"question", std::string(name_of(question)), is_known ? Status::holds : Status::undecided,
                     is_known ? "" : open_question_text(report, question)});
  }
  return cases;
}

}  // namespace

std::string backend_of(const Provenance& run) {
  return run.backend.empty() ? "unknown" : run.backend;
}

std::string gemm_of(const Provenance& run) {
  const auto gemm = run.details.find("gemm");
  return gemm == run.details.end() ? "" : gemm->second;
}

int exit_status(const Comparison& comparison, const ExitRules& rules) {
  if (rules.fail_on == FailOn::never) return 0;
  if (comparison.verdict == Status::violated) return 2;
  const bool is_approached = comparison.verdict == Status::approaches && rules.fail_on == FailOn::approach;
  const bool answers_all = std::all_of(rules.required.begin(), rules.required.end(),
                                       [&](Question question) { return is_answered(comparison, question); });
  return comparison.verdict > Status::approaches || is_approached || !answers_all ? 1 : 0;
}

Document document_of(const Report& report, const ExitRules& rules) {
  const Comparison& comparison = report.comparison;
  Document document;
  document.verb = "report";
  document.title = report.context.model_file;
  document.date = report.context.date;
  document.seconds = report.context.seconds;
  document.verdict = comparison.verdict;
  document.headline = headline(report);
  document.sections = {
      remarks(report, rules),        about_run(report),
      chart_section(comparison),     layers_section(comparison),
      kernels_section(comparison),   is_judged_alone(comparison) ? Section() : outputs_section(comparison),
      what_it_stands_on(comparison), explanation()};
  document.fields = fields_of(report);
  document.records = records_of(comparison);
  document.cases = cases_of(report, rules);
  document.exit_status = exit_status(comparison, rules);
  return document;
}

}  // namespace driftbound::analysis
