#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/drift_report.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

std::string in_capitals(DriftVerdict verdict) {
  std::string text(name_of(verdict));
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  return text;
}

std::vector<std::string> names_of(const std::vector<DriftAlone>& alone) {
  std::vector<std::string> names;
  for (const DriftAlone& one : alone) names.push_back(one.name);
  return names;
}

/// The aligned value that no other one is computed from: the last one.
const DriftOp& last_op(const RunsDrift& drift) {
  return drift.ops.back();
}

std::string why(const RunsDrift& drift) {
  if (drift.culprit) {
    const DriftOp& op = drift.ops[*drift.culprit];
    const auto same = [&](const DriftOp& other) { return other.verdict == drift.verdict; };
    const auto count = std::count_if(drift.ops.begin(), drift.ops.end(), same);
    std::string text = fmt::format("at '{}' ({}): {}", shorten(op.name, 60), op.op_b, op.reason);
    if (count > 1) text += fmt::format(" ({} more ops are {})", count - 1, name_of(drift.verdict));
    return text + ".";
  }
  if (drift.alone)
    return fmt::format("at '{}' ({}), which one run alone has: {}.", shorten(drift.alone->name, 60), drift.alone->op,
                       drift.alone->reason);
  const auto is_same = [](const DriftOp& op) { return op.difference && op.difference->is_zero(); };
  const auto same = std::count_if(drift.ops.begin(), drift.ops.end(), is_same);
  if (same == static_cast<std::ptrdiff_t>(drift.ops.size()))
    return fmt::format("all {} values that both runs computed are the same, bit for bit.", drift.ops.size());
  return fmt::format("rounding explains what differs in {} of {} values. The last one, '{}': {}.",
                     static_cast<std::ptrdiff_t>(drift.ops.size()) - same, drift.ops.size(),
                     shorten(last_op(drift).name, 60), last_op(drift).reason);
}

std::string headline_of(const DriftReport& report) {
  const DriftVerdict verdict = report.verdict();
  for (std::size_t i = 0; i < report.drifts.size(); ++i) {
    const RunsDrift& drift = report.drifts[i];
    if (drift.verdict != verdict) continue;
    const std::string which = report.drifts.size() > 1 ? fmt::format("{}: ", report.runs[i + 1].file) : "";
    return fmt::format("{}{}: {}{}", drift.interrupted ? "INTERRUPTED, " : "", in_capitals(verdict), which, why(drift));
  }
  return in_capitals(verdict) + ".";
}

Table table_of(const RunsDrift& drift) {
  Table table{{{"#", 3},
               {"value", 34, true},
               {"apart", 8},
               {"ulps", 7},
               {"same rows", 9},
               {"adds", 8},
               {"run 1", 5, true},
               {"run 2", 5, true},
               {"verdict", 10, true}}};
  for (std::size_t i = 0; i < drift.ops.size(); ++i) {
    const DriftOp& op = drift.ops[i];
    const RunDifference none;
    const RunDifference& difference = op.difference ? *op.difference : none;
    const bool is_known = op.difference.has_value();
    Row row;
    row.cells = {
        static_cast<std::int64_t>(i + 1),
        Name{op.name},
        is_known ? Cell(Number{difference.largest, Form::error}) : Cell(),
        is_known ? Cell(Number{difference.ulps, Form::ratio}) : Cell(),
        is_known && difference.rows > 0
            ? Cell(Number{static_cast<double>(difference.identical_rows) / static_cast<double>(difference.rows),
                          Form::percent})
            : Cell(),
        Number{op.introduced(), Form::error},
        op.a,
        op.b,
        std::string(name_of(op.verdict))};
    row.is_soft = op.verdict == DriftVerdict::expected;
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string alignment_text(const RunsDrift& drift) {
  std::vector<std::string> ways;
  for (const AlignedBy by : {AlignedBy::op, AlignedBy::module, AlignedBy::order, AlignedBy::numbers}) {
    const auto count =
        std::count_if(drift.ops.begin(), drift.ops.end(), [&](const DriftOp& op) { return op.by == by; });
    if (count > 0) ways.push_back(fmt::format("{} by {}", count, name_of(by)));
  }
  std::string text = fmt::format("Values of both runs: {} ({}).", drift.ops.size(), fmt::join(ways, ", "));
  if (!drift.only_a.empty()) text += fmt::format(" In the first run alone: {}.", list_of(names_of(drift.only_a)));
  if (!drift.only_b.empty()) text += fmt::format(" In the second run alone: {}.", list_of(names_of(drift.only_b)));
  return text;
}

std::int64_t rows_that(const Decisions& one, MayFlip may) {
  const auto found = one.by_flip.find(may);
  return found == one.by_flip.end() ? 0 : found->second;
}

/// "; no run of these arithmetics chooses otherwise in 500 rows (T-141), and some may in 12"
std::string flips_text(const Decisions& one) {
  if (rows_that(one, MayFlip::unknown) == one.rows) return "";
  const std::int64_t cannot = rows_that(one, MayFlip::cannot), unlikely = rows_that(one, MayFlip::not_by_chance);
  const std::int64_t may = rows_that(one, MayFlip::may);
  std::string text = fmt::format("; no run of these arithmetics chooses otherwise in {} rows (T-141)", cannot);
  if (unlikely > 0)
    text += fmt::format(", none will by chance in {} more (six standard deviations, an estimate)", unlikely);
  if (may > 0) text += fmt::format(", and some may in {}", may);
  return text;
}

/// "class 5 (1.25), 7 (1.24)"
std::string numbers_text(const std::vector<NumberOfClass>& numbers) {
  std::string text;
  for (const NumberOfClass& one : numbers)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.index, brief(one.number));
  return text;
}

/// "Choices by 'head': 3 of 512 rows differ (2.1 expected of independent noise); …"
std::string text_of(const Decisions& one) {
  std::string text = fmt::format("Choices by '{}', the largest of {} in each row: {} of {} rows differ", one.name,
                                 one.classes, one.flips, one.rows);
  text += fmt::format(" (independent noise of this size would make {})", brief(one.estimate_of_flips));
  if (one.ties > 0) text += fmt::format("; {} rows have ties, of which the first counts", one.ties);
  if (one.top > 0) text += fmt::format("; the {} largest are of other classes in {} rows", one.top, one.other_sets);
  if (one.certain) text += fmt::format("; in {} both are those of the exact network, proven", *one.certain);
  text += flips_text(one);
  text += fmt::format(
      ". Softmax of both: Jensen-Shannon divergence {} at most, log-probability of the first run's choice "
      "{} apart at most.",
      error_text(one.largest_divergence), error_text(one.largest_log_ratio));
  if (one.log_ratio_at_most)
    text += fmt::format(" Any two such runs have it within {}.", bound_text(*one.log_ratio_at_most));
  const std::vector<RowDecision>& rows = one.flipped.empty() ? one.nearest : one.flipped;
  if (rows.empty()) return text;
  text += one.flipped.empty() ? " Smallest gaps:" : " Differing rows:";
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i)
    text += fmt::format("{} row {}, {}{} with gaps {} and {}", i == 0 ? "" : ";", rows[i].row, rows[i].winner_a,
                        rows[i].winner_a == rows[i].winner_b ? "" : fmt::format(" and {}", rows[i].winner_b),
                        brief(rows[i].gap_a), brief(rows[i].gap_b));
  text += ".";
  if (!one.flipped.empty())
    text +=
        fmt::format(" The largest numbers of row {}, the first that differs: {} in the first run, {} in the second.",
                    rows.front().row, numbers_text(rows.front().largest_a), numbers_text(rows.front().largest_b));
  return text;
}

/// "evidence of it (p = 1e-9)"
std::string evidence_text(double p) {
  constexpr double small = 1e-3;
  return fmt::format("{} (p = {})", p < small ? "evidence" : "no evidence", brief(p));
}

std::string text_of(const DriftNoise& one) {
  const NoiseStructure& noise = one.structure;
  return fmt::format(
      "Noise of '{}'{}, {} rows of {} columns: {:.1f} % of the covariance lies off the diagonal, {:.1f} % if columns "
      "were "
      "independent: {} of correlation; largest eigenvalue {}, the edge of independent ones {}; mean {}: {} of a bias.",
      one.name, one.cast.empty() ? "" : " cast to " + one.cast, noise.rows, noise.columns, 100.0 * noise.off_share,
      100.0 * noise.off_share_if_independent, evidence_text(noise.p_correlation), brief(noise.largest_eigenvalue),
      brief(noise.edge), error_text(noise.mean), evidence_text(noise.p_mean));
}

Json json_of_noise(const std::vector<DriftNoise>& noise) {
  Json list = Json::array();
  for (const DriftNoise& one : noise)
    list.push_back(object("name"_key = one.name, "cast"_key = text_or_null(one.cast), "rows"_key = one.structure.rows,
                          "columns"_key = one.structure.columns, "off_share"_key = one.structure.off_share,
                          "off_share_if_independent"_key = one.structure.off_share_if_independent,
                          "p_correlation"_key = one.structure.p_correlation,
                          "largest_eigenvalue"_key = one.structure.largest_eigenvalue, "edge"_key = one.structure.edge,
                          "mean"_key = one.structure.mean, "p_mean"_key = one.structure.p_mean));
  return list;
}

Json json_of_numbers(const std::vector<NumberOfClass>& numbers) {
  Json list = Json::array();
  for (const NumberOfClass& one : numbers) list.push_back(object("class"_key = one.index, "number"_key = one.number));
  return list;
}

Json json_of_rows(const std::vector<RowDecision>& rows) {
  Json list = Json::array();
  for (const RowDecision& row : rows)
    list.push_back(object("row"_key = row.row, "winner_first"_key = row.winner_a, "winner_second"_key = row.winner_b,
                          "gap_first"_key = row.gap_a, "gap_second"_key = row.gap_b,
                          "may_flip"_key = name_of(row.may_flip), "largest_first"_key = json_of_numbers(row.largest_a),
                          "largest_second"_key = json_of_numbers(row.largest_b)));
  return list;
}

Json json_of_decisions(const std::vector<Decisions>& decisions) {
  Json list = Json::array();
  for (const Decisions& one : decisions)
    list.push_back(
        object("name"_key = one.name, "rows"_key = one.rows, "classes"_key = one.classes, "flips"_key = one.flips,
               "ties"_key = one.ties, "certain"_key = one.certain, "top"_key = one.top,
               "other_sets"_key = one.other_sets, "cannot_flip"_key = rows_that(one, MayFlip::cannot),
               "will_not_flip_by_chance"_key = rows_that(one, MayFlip::not_by_chance),
               "may_flip"_key = rows_that(one, MayFlip::may), "log_ratio_at_most"_key = one.log_ratio_at_most,
               "estimate_of_flips"_key = one.estimate_of_flips, "mean_divergence"_key = one.mean_divergence,
               "largest_divergence"_key = one.largest_divergence, "largest_log_ratio"_key = one.largest_log_ratio,
               "flipped"_key = json_of_rows(one.flipped), "nearest"_key = json_of_rows(one.nearest)));
  return list;
}

Section remarks_of(const RunsDrift& drift) {
  Section section;
  const auto add = [&](std::string text, Style style = Style::plain) {
    section.push_back(Paragraph{std::move(text), style});
  };
  add(alignment_text(drift));
  if (drift.rows) {
    const auto known =
        std::count_if(drift.rows->of_b.begin(), drift.rows->of_b.end(), [](auto row) { return row >= 0; });
    add(fmt::format("Rows: {} of the second run's {} are rows of the first run's {}, by their inputs.", known,
                    drift.rows->b, drift.rows->a));
  }
  for (const DriftSource& source : drift.sources)
    add(fmt::format(
            "The numbers of '{}' ('{}' in the second run) differ in {} of {} elements{}; '{}' reads them first.",
            source.a, source.b, source.difference->differing, source.difference->elements,
            source.is_drifted           ? ", by a few roundings: an op that was not recorded made them"
            : source.rounded_to.empty() ? ""
                                        : ": they are rounded to " + source.rounded_to,
            source.reader),
        source.is_drifted ? Style::plain : Style::wrong);
  if (!drift.sources_only_a.empty())
    add(fmt::format("Values from outside in the first run alone: {}.", list_of(drift.sources_only_a)));
  if (!drift.sources_only_b.empty())
    add(fmt::format("Values from outside in the second run alone: {}.", list_of(drift.sources_only_b)));
  if (drift.first)
    add(fmt::format("The runs depart at '{}'{}.", drift.ops[*drift.first].name,
                    drift.ops[*drift.first].has_same_operands ? ", on the same operands" : ""));
  if (drift.amplifies && drift.amplification > 2.0)
    add(fmt::format("'{}' amplifies most: its relative difference is {} times that of what it reads.",
                    drift.ops[*drift.amplifies].name, brief(drift.amplification)));
  for (const Decisions& one : drift.decisions) add(text_of(one));
  for (const DriftNoise& one : drift.noise) add(text_of(one));
  if (!drift.not_as_b.empty())
    add("The first run's numbers are not held against the second run's network: " + drift.not_as_b + ".");
  return section;
}

Json json_of_difference(const RunDifference& d) {
  return object("elements"_key = d.elements, "differing"_key = d.differing, "rows"_key = d.rows,
                "identical_rows"_key = d.identical_rows, "largest"_key = d.largest, "rms"_key = d.rms,
                "ulps"_key = d.ulps, "scale"_key = d.scale, "worst"_key = d.worst, "first"_key = d.worst_a,
                "second"_key = d.worst_b, "not_finite_first"_key = d.not_finite_a,
                "not_finite_second"_key = d.not_finite_b, "mean"_key = d.mean, "mean_error"_key = d.mean_error);
}

Json json_of_difference(const std::optional<RunDifference>& difference) {
  return difference ? json_of_difference(*difference) : Json(nullptr);
}

Json json_of_alone(const std::vector<DriftAlone>& alone) {
  Json list = Json::array();
  for (const DriftAlone& one : alone)
    list.push_back(object("name"_key = one.name, "op"_key = one.op, "status"_key = name_of(one.status),
                          "reason"_key = text_or_null(one.reason)));
  return list;
}

std::string_view name_of_operands(const DriftOp& op) {
  return op.has_same_operands ? "same numbers" : "other numbers";
}

Json json_of_drift(const RunsDrift& drift) {
  Json ops = Json::array(), sources = Json::array();
  for (const DriftOp& op : drift.ops)
    ops.push_back(object(
        "name"_key = op.name, "name_second"_key = op.name_b, "module"_key = text_or_null(op.module), "op"_key = op.op,
        "op_second"_key = op.op_b, "by"_key = name_of(op.by), "operands"_key = name_of_operands(op),
        "difference"_key = json_of_difference(op.difference), "introduced"_key = op.introduced(),
        "status_first"_key = name_of(op.a), "status_second"_key = name_of(op.b),
        "status_as_second"_key = name_of(op.as_b), "error_first"_key = op.error_a, "error_second"_key = op.error_b,
        "from_input_first"_key = op.from_input_a, "from_input_second"_key = op.from_input_b,
        "apart_at_most"_key = op.apart_at_most, "verdict"_key = name_of(op.verdict), "reason"_key = op.reason));
  for (const DriftSource& source : drift.sources)
    sources.push_back(object("first"_key = source.a, "second"_key = source.b, "reader"_key = source.reader,
                             "difference"_key = json_of_difference(source.difference),
                             "rounded_to"_key = text_or_null(source.rounded_to), "drifted"_key = source.is_drifted));
  const auto name_at = [&](const std::optional<std::size_t>& i) {
    return i ? Json(drift.ops[*i].name) : Json(nullptr);
  };
  Json rows = nullptr;
  if (drift.rows)
    rows = object("first"_key = drift.rows->a, "second"_key = drift.rows->b, "of_second"_key = drift.rows->of_b);
  return object("verdict"_key = name_of(drift.verdict), "reason"_key = why(drift),
                "culprit"_key = name_at(drift.culprit), "departs"_key = name_at(drift.first),
                "amplifies"_key = name_at(drift.amplifies), "amplification"_key = drift.amplification,
                "interrupted"_key = drift.interrupted, "rows"_key = rows, "ops"_key = ops, "sources"_key = sources,
                "only_first"_key = json_of_alone(drift.only_a), "only_second"_key = json_of_alone(drift.only_b),
                "sources_only_first"_key = drift.sources_only_a, "sources_only_second"_key = drift.sources_only_b,
                "decisions"_key = json_of_decisions(drift.decisions), "noise"_key = json_of_noise(drift.noise),
                "not_as_second"_key = text_or_null(drift.not_as_b));
}

Json json_of_classes(const DriftReport& report) {
  Json list = Json::array();
  for (const std::vector<std::size_t>& one : report.classes) {
    Json names = Json::array();
    for (const std::size_t run : one) names.push_back(report.runs[run].file);
    list.push_back(std::move(names));
  }
  return list;
}

/// "Outputs are the same bit for bit within: 'batch 1', 'batch 4'; 'batch 16'."
std::string classes_text(const DriftReport& report) {
  if (report.classes.size() == 1) return "Outputs of all runs are the same bit for bit.";
  std::vector<std::string> texts;
  for (const std::vector<std::size_t>& one : report.classes) {
    std::vector<std::string> names;
    for (const std::size_t run : one) names.push_back("'" + report.runs[run].file + "'");
    texts.push_back(fmt::format("{}", fmt::join(names, ", ")));
  }
  return fmt::format("Outputs are the same bit for bit within each of {} classes of runs: {}.", texts.size(),
                     fmt::join(texts, "; "));
}

/// The last result of every run side by side, the error of the number of interest, and what the run costs.
Table table_of_runs(const DriftReport& report) {
  Table table{{{"run", 40, true}, {"last result off by", 18}, {"apart from the first", 20}}};
  if (!report.target.empty()) {
    table.columns.push_back({"rms of the target", 17});
    table.columns.push_back({"predicted", 9});
  }
  table.columns.push_back({"seconds", 9});
  const auto cell = [](std::optional<double> number) { return number ? Cell(Number{*number, Form::error}) : Cell(); };
  for (std::size_t run = 0; run < report.runs.size() && !report.drifts.empty(); ++run) {
    const RunsDrift& drift = report.drifts[run == 0 ? 0 : run - 1];
    if (drift.ops.empty()) continue;
    const DriftRunContext& context = report.runs[run];
    const DriftOp& last = drift.ops.back();
    std::optional<double> apart;
    if (last.difference) apart = run == 0 ? 0.0 : last.difference->largest;
    std::vector<Cell> cells = {Name{context.file}, cell(run == 0 ? last.from_input_a : last.from_input_b), cell(apart)};
    if (!report.target.empty()) {
      cells.push_back(cell(context.rms));
      cells.push_back(cell(context.predicted_rms));
    }
    cells.push_back(context.seconds ? Cell(brief(*context.seconds)) : Cell());
    table.rows.push_back({std::move(cells)});
  }
  return table;
}

Json fields_of(const DriftReport& report) {
  Json runs = Json::array(), drifts = Json::array();
  for (const DriftRunContext& run : report.runs)
    runs.push_back(object("file"_key = run.file, "sha256"_key = run.sha256, "records"_key = run.records,
                          "program"_key = run.provenance.program, "device"_key = run.provenance.device,
                          "problems"_key = run.problems, "seconds"_key = run.seconds, "rms"_key = run.rms,
                          "predicted_rms"_key = run.predicted_rms));
  for (const RunsDrift& drift : report.drifts) drifts.push_back(json_of_drift(drift));
  return object("schema"_key = "driftbound/drift/1", "version"_key = DRIFTBOUND_VERSION, "date"_key = report.date,
                "command"_key = report.command, "verdict"_key = name_of(report.verdict()),
                "reason"_key = headline_of(report), "runs"_key = runs, "drifts"_key = drifts,
                "classes"_key = json_of_classes(report), "target"_key = text_or_null(report.target),
                "seconds"_key = report.seconds);
}

Table records_of(const DriftReport& report) {
  Table table{{{"run"},
               {"value"},
               {"op"},
               {"elements"},
               {"differing"},
               {"largest"},
               {"rms"},
               {"ulps"},
               {"introduced"},
               {"status_first"},
               {"status_second"},
               {"verdict"},
               {"reason"}}};
  for (std::size_t i = 0; i < report.drifts.size(); ++i)
    for (const DriftOp& op : report.drifts[i].ops) {
      const RunDifference d = op.difference.value_or(RunDifference());
      table.rows.push_back(
          {{Name{report.runs[i + 1].file}, Name{op.name}, op.op_b, d.elements, d.differing, Number{d.largest},
            Number{d.rms}, Number{d.ulps}, Number{op.introduced()}, std::string(name_of(op.a)),
            std::string(name_of(op.b)), std::string(name_of(op.verdict)), Name{op.reason}}});
    }
  return table;
}

std::vector<Case> cases_of(const DriftReport& report) {
  std::vector<Case> cases = {{"drift", "verdict", status_of(report.verdict()), headline_of(report)}};
  for (std::size_t i = 0; i < report.drifts.size(); ++i)
    for (const DriftOp& op : report.drifts[i].ops)
      cases.push_back({report.runs[i + 1].file, op.name, status_of(op.verdict), op.reason});
  return cases;
}

}  // namespace

DriftVerdict DriftReport::verdict() const {
  DriftVerdict worst = DriftVerdict::expected;
  for (const RunsDrift& drift : drifts) worst = std::max(worst, drift.verdict);
  return worst;
}

std::vector<std::vector<std::size_t>> classes_of(const std::vector<std::string>& fingerprints) {
  std::vector<std::vector<std::size_t>> classes;
  for (std::size_t run = 0; run < fingerprints.size(); ++run) {
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const std::vector<std::size_t>& one) {
      return fingerprints[one.front()] == fingerprints[run];
    });
    if (found != classes.end()) {
      found->push_back(run);
    } else {
      classes.push_back({run});
    }
  }
  return classes;
}

Document document_of(const DriftReport& report) {
  Document document;
  document.verb = "drift";
  document.title = report.runs.front().file;
  document.date = report.date;
  document.seconds = report.seconds;
  document.verdict = status_of(report.verdict());
  document.headline = headline_of(report);
  Section about;
  for (const DriftRunContext& run : report.runs) {
    about.push_back(
        Paragraph{fmt::format("{} · {} · {} results", run.file, run.provenance.program, run.records), Style::line});
    for (const std::string& problem : run.problems) about.push_back(Paragraph{problem, Style::warning});
  }
  if (!report.classes.empty()) {
    about.push_back(Paragraph{classes_text(report)});
    if (!report.target.empty())
      about.push_back(
          Paragraph{fmt::format("The target is {}. A prediction is an estimate: the errors that layers "
                                "contribute to first order (T-73), and what is left of the layer's own.",
                                report.target)});
    about.push_back(table_of_runs(report));
  }
  document.sections = {{}, std::move(about)};
  for (std::size_t i = 0; i < report.drifts.size(); ++i) {
    const RunsDrift& drift = report.drifts[i];
    Section section;
    if (report.drifts.size() > 1)
      section.push_back(Paragraph{fmt::format("{} against {}: {}", report.runs[i + 1].file, report.runs.front().file,
                                              in_capitals(drift.verdict)),
                                  Style::heading});
    if (report.drifts.size() > 1) section.push_back(Paragraph{why(drift)});
    section.push_back(table_of(drift));
    document.sections.push_back(std::move(section));
    document.sections.push_back(remarks_of(drift));
  }
  document.fields = fields_of(report);
  document.records = records_of(report);
  document.cases = cases_of(report);
  const bool is_bug = report.verdict() == DriftVerdict::bug;
  document.exit_status = report.verdict() == DriftVerdict::expected ? 0 : is_bug ? 2 : 1;
  return document;
}

}  // namespace driftbound::analysis
