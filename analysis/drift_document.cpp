#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

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

/// " Compared are 5 to 9 of 12 positions of 16 rows.": what is left out, where both runs do not have the same.
std::string scope_of(const RunsDrift& drift) {
  std::string text;
  if (drift.rows) {
    const AlignedRows& rows = *drift.rows;
    const auto known = std::count_if(rows.of_b.begin(), rows.of_b.end(), [](auto row) { return row >= 0; });
    if (rows.positions) {
      std::int64_t compared = 0;
      for (std::size_t row = 0; row < rows.of_b.size(); ++row)
        if (rows.of_b[row] >= 0) compared += rows.positions->of_b[row].count;
      text = fmt::format(" Compared are {} positions of {} in the first run and {} in the second.", compared,
                         rows.a * rows.positions->a, rows.b * rows.positions->b);
    } else if (known < std::max(rows.a, rows.b)) {
      text = fmt::format(" Compared are {} rows of {} in the first run and {} in the second.", known, rows.a, rows.b);
    }
  }
  for (const auto& [alone, lacks] : {std::pair(&drift.only_a, "second"), std::pair(&drift.only_b, "first")})
    if (!alone->empty())
      text += fmt::format(" The {} run has no counterpart of {}.", lacks, list_of(names_of(*alone), 3));
  return text;
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
  const auto is_same = [](const DriftOp& op) {
    return op.difference && op.difference->is_zero() && op.difference->masked == 0;
  };
  const auto same = std::count_if(drift.ops.begin(), drift.ops.end(), is_same);
  if (same == static_cast<std::ptrdiff_t>(drift.ops.size()))
    return fmt::format("all {} values that both runs computed are the same, bit for bit.{}", drift.ops.size(),
                       scope_of(drift));
  const auto is_compared = [](const DriftOp& op) { return op.difference.has_value(); };
  const auto compared = std::count_if(drift.ops.begin(), drift.ops.end(), is_compared);
  if (compared == same)
    return fmt::format(
        "{} of {} values that both runs computed are the same, bit for bit; the others are not compared.{}", same,
        drift.ops.size(), scope_of(drift));
  const auto last = std::find_if(drift.ops.rbegin(), drift.ops.rend(),
                                 [&](const DriftOp& op) { return is_compared(op) && !is_same(op); });
  return fmt::format("rounding explains what differs in {} of {} values. The last one, '{}': {}.{}", compared - same,
                     drift.ops.size(), shorten(last->name, 60), last->reason, scope_of(drift));
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

/// The values that a table shows, in order: all of them, or where there are many those that are not expected, where the
/// runs depart, what amplifies most, and the largest differences relative to their scale.
std::vector<std::size_t> shown_ops(const RunsDrift& drift) {
  constexpr std::size_t all = 120, most = 60, most_with_verdict = 40;
  std::vector<std::size_t> shown(drift.ops.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() <= all) return shown;
  const auto relative = [&](std::size_t i) {
    return drift.ops[i].difference ? drift.ops[i].difference->relative() : 0.0;
  };
  std::set<std::size_t> chosen;
  for (const std::optional<std::size_t>& one : {drift.culprit, drift.first, drift.amplifies})
    if (one) chosen.insert(*one);
  for (std::size_t i = 0; i < drift.ops.size() && chosen.size() < most_with_verdict; ++i)
    if (drift.ops[i].verdict != DriftVerdict::expected) chosen.insert(i);
  std::stable_sort(shown.begin(), shown.end(), [&](std::size_t i, std::size_t j) { return relative(i) > relative(j); });
  for (std::size_t i = 0; i < shown.size() && chosen.size() < most; ++i) chosen.insert(shown[i]);
  return {chosen.begin(), chosen.end()};
}

Table table_of(const RunsDrift& drift, const std::vector<std::size_t>& shown) {
  Table table{{{"#", 3},
               {"value", 30, true},
               {"apart", 8},
               {"rms", 8},
               {"relative", 8},
               {"ulps", 7},
               {"same", 5},
               {"adds", 8},
               {"inherits", 8},
               {"run 1", 5, true},
               {"run 2", 5, true},
               {"verdict", 10, true}}};
  for (const std::size_t i : shown) {
    const DriftOp& op = drift.ops[i];
    const RunDifference none;
    const RunDifference& difference = op.difference ? *op.difference : none;
    const bool is_known = op.difference.has_value();
    Row row;
    row.cells = {
        static_cast<std::int64_t>(i + 1),
        Name{op.name},
        is_known ? Cell(Number{difference.largest, Form::error}) : Cell(),
        is_known ? Cell(Number{difference.rms, Form::error}) : Cell(),
        is_known ? Cell(Number{difference.relative(), Form::error}) : Cell(),
        is_known ? Cell(Number{difference.ulps, Form::ratio}) : Cell(),
        is_known && difference.rows > 0
            ? Cell(Number{static_cast<double>(difference.identical_rows) / static_cast<double>(difference.rows),
                          Form::percent})
            : Cell(),
        Number{op.introduced(), Form::error},
        Number{op.propagated(), Form::error},
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

/// "p = 1e-9"; a probability that is 0 in double is smaller than every number there.
std::string probability_text(double p) {
  return p > 0.0 ? fmt::format("p = {}", brief(p)) : "p < 1e-300";
}

/// "evidence (p = 1e-9)"
std::string evidence_text(double p) {
  constexpr double small = 1e-3;
  return fmt::format("{} ({})", p < small ? "evidence" : "no evidence", probability_text(p));
}

std::string text_of(const DriftNoise& one) {
  const NoiseStructure& noise = one.structure;
  std::string rows = noise.rows == noise.all_rows ? fmt::format("{} rows", noise.rows)
                                                  : fmt::format("{} of {} rows", noise.rows, noise.all_rows);
  if (noise.repeated_rows > 0) rows += fmt::format(" ({} repeat others)", noise.repeated_rows);
  std::string text = fmt::format(
      "Noise of '{}'{}, {} of {} columns, {:.3g} % of the elements differ: {:.1f} % of the covariance lies off the "
      "diagonal, {:.1f} % if columns were independent: {} of correlation; largest eigenvalue {}, the edge of "
      "independent normal ones {}",
      one.name, one.cast.empty() ? "" : " cast to " + one.cast, rows, noise.columns, 100.0 * noise.differing,
      100.0 * noise.off_share, 100.0 * noise.off_share_if_independent, evidence_text(noise.p_correlation),
      brief(noise.largest_eigenvalue), brief(noise.edge));
  if (noise.p_eigenvalue) text += fmt::format(" ({})", probability_text(*noise.p_eigenvalue));
  return text + fmt::format("; mean {}: {} of a bias; mean away from zero {}: {} of a bias {} zero.",
                            error_text(noise.mean), evidence_text(noise.p_mean), error_text(noise.mean_outward),
                            evidence_text(noise.p_outward), noise.mean_outward < 0.0 ? "toward" : "away from");
}

Json json_of_noise(const std::vector<DriftNoise>& noise) {
  Json list = Json::array();
  for (const DriftNoise& one : noise) {
    const NoiseStructure& of = one.structure;
    list.push_back(object("name"_key = one.name, "cast"_key = text_or_null(one.cast), "all_rows"_key = of.all_rows,
                          "repeated_rows"_key = of.repeated_rows, "rows"_key = of.rows, "columns"_key = of.columns,
                          "differing"_key = of.differing, "off_share"_key = of.off_share,
                          "off_share_if_independent"_key = of.off_share_if_independent,
                          "p_correlation"_key = of.p_correlation, "p_permuted"_key = of.p_permuted,
                          "p_signs"_key = of.p_signs, "largest_eigenvalue"_key = of.largest_eigenvalue,
                          "edge"_key = of.edge, "p_eigenvalue"_key = of.p_eigenvalue, "draws"_key = of.draws,
                          "drawn_columns"_key = of.drawn_columns, "mean"_key = of.mean, "p_mean"_key = of.p_mean,
                          "mean_outward"_key = of.mean_outward, "p_outward"_key = of.p_outward));
  }
  return list;
}

/// "Sequences: of 20 positions in the first run and 31 in the second, the first 12 are the same and are compared."
std::string positions_text(const AlignedRows& rows, std::int64_t pairs_of_steps) {
  const AlignedPositions& positions = *rows.positions;
  std::int64_t least = positions.a, most = 0, compared = 0;
  bool are_first = true;
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    const AlignedStretch& stretch = positions.of_b[row];
    if (rows.of_b[row] < 0) continue;
    ++compared;
    least = std::min(least, stretch.count);
    most = std::max(most, stretch.count);
    are_first = are_first && stretch.first_a == 0 && stretch.first_b == 0;
  }
  const std::string count = least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
  std::string text =
      fmt::format("Sequences: of {} positions in the first run and {} in the second, the {} {} are the same",
                  positions.a, positions.b, are_first ? "first" : "last", count);
  if (rows.a > 1 || rows.b > 1) text += fmt::format(" in {} of {} rows", compared, rows.b);
  text += " and are compared";
  if (pairs_of_steps > 0)
    text += fmt::format(
        ", in {} pairs of steps: the runs read them in different steps, as a prompt and then token by "
        "token, or at once",
        pairs_of_steps);
  return text + ".";
}

/// "Kernels: all bits of 7 of 9 products are explained in both runs (docs/explain.md). In 3 the runs have other kernels, the
/// first one 'fc': … in the first run, … in the second."
std::string kernels_of(const RunsDrift& drift) {
  const auto is_explained = [](const DriftOp& op) { return !op.kernel_a.empty() && !op.kernel_b.empty(); };
  const auto is_other = [&](const DriftOp& op) { return is_explained(op) && op.kernel_a != op.kernel_b; };
  const auto explained = std::count_if(drift.ops.begin(), drift.ops.end(), is_explained);
  const auto others = std::count_if(drift.ops.begin(), drift.ops.end(), is_other);
  if (explained == 0) return "";
  std::string text = fmt::format("Kernels: all bits of {} values are explained in both runs", explained);
  if (others == 0) {
    const auto mixed = std::count_if(drift.ops.begin(), drift.ops.end(),
                                     [&](const DriftOp& op) { return is_explained(op) && op.has_several_kernels; });
    return text + ", by the same kernels" +
           (mixed > 0 ? fmt::format(", {} of them by several, which need not be those of the same elements", mixed)
                      : "") +
           ".";
  }
  const DriftOp& first = *std::find_if(drift.ops.begin(), drift.ops.end(), is_other);
  return text + fmt::format(", {} of them by other kernels. The first is '{}': {} in the first run, {} in the second.",
                            others, shorten(first.name, 60), first.kernel_a, first.kernel_b);
}

/// ": the second run rounds them to bf16, its type": why the numbers of a value from outside differ, as far as they tell.
std::string cause_of(const DriftSource& source) {
  if (source.is_drifted) return ", by a few roundings: an op that was not recorded made them";
  if (source.is_zero_in_one) return ": they are 0 in one run alone";
  if (source.rounded_to.empty()) return "";
  return fmt::format(": those of the {} run are rounded to {}{}", source.is_first_rounded ? "first" : "second",
                     source.rounded_to, source.is_declared ? ", as their type says" : ", which no type says");
}

/// One sentence of all values that one run has in a narrower type, and one of each other value from outside.
void add_sources(const std::vector<DriftSource>& sources, const std::function<void(std::string, Style)>& add) {
  std::map<std::string, std::vector<std::string>> alike;  // names, by what the values have in common
  for (const DriftSource& source : sources)
    if (source.is_declared) alike[cause_of(source)].push_back(source.called_a);
  for (const auto& [cause, names] : alike)
    if (names.size() > 1)
      add(fmt::format("The numbers of {} values from outside differ{}: {}.", names.size(), cause, list_of(names)),
          Style::plain);
  for (const DriftSource& source : sources) {
    if (source.is_declared && alike[cause_of(source)].size() > 1) continue;
    const std::string other =
        source.called_a == source.called_b ? "" : fmt::format(" ('{}' in the second run)", source.called_b);
    add(fmt::format("The numbers of '{}'{} differ in {} of {} elements{}; '{}' reads them first.", source.called_a,
                    other, source.difference->differing, source.difference->elements, cause_of(source), source.reader),
        source.is_drifted || source.is_declared ? Style::plain : Style::wrong);
  }
}

Section remarks_of(const RunsDrift& drift) {
  Section section;
  const auto add = [&](std::string text, Style style = Style::plain) {
    section.push_back(Paragraph{std::move(text), style});
  };
  add(alignment_text(drift));
  if (drift.rows && drift.rows->positions) add(positions_text(*drift.rows, drift.pairs_of_steps));
  if (drift.parting)
    add(fmt::format(
            "The runs part at position {} of row {} of '{}'{}: {} in the first run, {} in the second. What follows "
            "has other inputs and is not compared.",
            drift.parting->position, drift.parting->row, drift.parting->name,
            drift.parting->is_drawn ? ", which is drawn at random" : "", drift.parting->a, drift.parting->b),
        Style::note);
  if (drift.rows && !drift.rows->positions) {
    const auto known =
        std::count_if(drift.rows->of_b.begin(), drift.rows->of_b.end(), [](auto row) { return row >= 0; });
    add(fmt::format("Rows: {} of the second run's {} are rows of the first run's {}, by their inputs.", known,
                    drift.rows->b, drift.rows->a));
  }
  add_sources(drift.sources, add);
  if (!drift.sources_only_a.empty())
    add(fmt::format("Values from outside in the first run alone: {}.", list_of(drift.sources_only_a)));
  if (!drift.sources_only_b.empty())
    add(fmt::format("Values from outside in the second run alone: {}.", list_of(drift.sources_only_b)));
  if (drift.first)
    add(fmt::format("The runs depart at '{}'{}.", drift.ops[*drift.first].name,
                    drift.ops[*drift.first].has_same_operands ? ", on the same operands" : ""));
  if (const std::string text = kernels_of(drift); !text.empty()) add(text);
  for (const std::string& text : drift.undeclared) add(text, Style::note);
  if (drift.amplifies && drift.amplification > 1.0)
    add(fmt::format("'{}' amplifies most: its relative difference is {} times that of what it reads.",
                    drift.ops[*drift.amplifies].name, brief(drift.amplification)));
  for (std::string& text : texts_of(drift.decisions)) add(std::move(text));
  for (const DriftNoise& one : drift.noise) add(text_of(one));
  if (!drift.not_as_b.empty())
    add("The first run's numbers are not held against the second run's network: " + drift.not_as_b + ".");
  return section;
}

Json json_of_difference(const RunDifference& d) {
  return object("elements"_key = d.elements, "differing"_key = d.differing, "rows"_key = d.rows,
                "identical_rows"_key = d.identical_rows, "largest"_key = d.largest, "rms"_key = d.rms,
                "relative"_key = d.relative(), "ulps"_key = d.ulps, "scale"_key = d.scale, "worst"_key = d.worst,
                "first"_key = d.worst_a, "second"_key = d.worst_b, "not_finite_first"_key = d.not_finite_a,
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

Json json_of_positions(const AlignedRows& rows, std::int64_t pairs_of_steps) {
  if (!rows.positions) return nullptr;
  Json of_second = Json::array();
  for (const AlignedStretch& stretch : rows.positions->of_b)
    of_second.push_back(
        object("first"_key = stretch.first_a, "second"_key = stretch.first_b, "count"_key = stretch.count));
  return object("first"_key = rows.positions->a, "second"_key = rows.positions->b, "of_second"_key = of_second,
                "pairs_of_steps"_key = pairs_of_steps);
}

Json json_of_drift(const RunsDrift& drift) {
  Json ops = Json::array(), sources = Json::array();
  for (const DriftOp& op : drift.ops)
    ops.push_back(object(
        "name"_key = op.name, "name_second"_key = op.name_b, "module"_key = text_or_null(op.module), "op"_key = op.op,
        "op_second"_key = op.op_b, "by"_key = name_of(op.by), "operands"_key = name_of_operands(op),
        "difference"_key = json_of_difference(op.difference), "introduced"_key = op.introduced(),
        "propagated"_key = op.propagated(), "status_first"_key = name_of(op.a), "status_second"_key = name_of(op.b),
        "status_as_second"_key = name_of(op.as_b), "error_first"_key = op.error_a, "error_second"_key = op.error_b,
        "from_input_first"_key = op.from_input_a, "from_input_second"_key = op.from_input_b,
        "apart_at_most"_key = op.apart_at_most, "kernel_first"_key = text_or_null(op.kernel_a),
        "kernel_second"_key = text_or_null(op.kernel_b), "predicted"_key = op.is_predicted(),
        "verdict"_key = name_of(op.verdict), "reason"_key = op.reason));
  for (const DriftSource& source : drift.sources)
    sources.push_back(object("first"_key = source.called_a, "second"_key = source.called_b,
                             "reader"_key = source.reader, "difference"_key = json_of_difference(source.difference),
                             "rounded_to"_key = text_or_null(source.rounded_to),
                             "rounded_in_first"_key = source.is_first_rounded && !source.rounded_to.empty(),
                             "declared"_key = source.is_declared, "drifted"_key = source.is_drifted));
  const auto name_at = [&](const std::optional<std::size_t>& i) {
    return i ? Json(drift.ops[*i].name) : Json(nullptr);
  };
  Json rows = nullptr, parting = nullptr;
  if (drift.rows)
    rows = object("first"_key = drift.rows->a, "second"_key = drift.rows->b, "of_second"_key = drift.rows->of_b,
                  "positions"_key = json_of_positions(*drift.rows, drift.pairs_of_steps));
  if (drift.parting)
    parting = object("name"_key = drift.parting->name, "row"_key = drift.parting->row,
                     "position"_key = drift.parting->position, "first"_key = drift.parting->a,
                     "second"_key = drift.parting->b, "drawn"_key = drift.parting->is_drawn);
  return object("verdict"_key = name_of(drift.verdict), "reason"_key = why(drift),
                "culprit"_key = name_at(drift.culprit), "departs"_key = name_at(drift.first),
                "amplifies"_key = name_at(drift.amplifies), "amplification"_key = drift.amplification,
                "interrupted"_key = drift.interrupted, "rows"_key = rows, "parting"_key = parting, "ops"_key = ops,
                "sources"_key = sources, "only_first"_key = json_of_alone(drift.only_a),
                "only_second"_key = json_of_alone(drift.only_b), "sources_only_first"_key = drift.sources_only_a,
                "sources_only_second"_key = drift.sources_only_b, "decisions"_key = json_of_decisions(drift.decisions),
                "noise"_key = json_of_noise(drift.noise), "not_as_second"_key = text_or_null(drift.not_as_b),
                "as_first"_key = drift.is_as_a);
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

/// Outputs are the same bit for bit within each of 2 classes of runs: "batch 1", "batch 4"; "batch 16".
std::string classes_text(const DriftReport& report) {
  if (report.classes.size() == 1) return "Outputs of all runs are the same bit for bit.";
  std::vector<std::string> texts;
  for (const std::vector<std::size_t>& one : report.classes) {
    std::vector<std::string> names;
    for (const std::size_t run : one) names.push_back('"' + report.runs[run].file + '"');
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
    cells.emplace_back();
    if (context.seconds) cells.back() = brief(*context.seconds);
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
               {"relative"},
               {"ulps"},
               {"introduced"},
               {"propagated"},
               {"status_first"},
               {"status_second"},
               {"verdict"},
               {"reason"}}};
  for (std::size_t i = 0; i < report.drifts.size(); ++i)
    for (const DriftOp& op : report.drifts[i].ops) {
      const RunDifference d = op.difference.value_or(RunDifference());
      table.rows.push_back({{Name{report.runs[i + 1].file}, Name{op.name}, op.op_b, d.elements, d.differing,
                             Number{d.largest}, Number{d.rms}, Number{d.relative()}, Number{d.ulps},
                             Number{op.introduced()}, Number{op.propagated()}, std::string(name_of(op.a)),
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
    const std::vector<std::size_t> shown = shown_ops(drift);
    section.push_back(table_of(drift, shown));
    if (shown.size() < drift.ops.size())
      section.push_back(Paragraph{fmt::format(
          "The table has {} of {} values: what is not expected, and the largest differences relative to their "
          "scale. --json and --csv have all.",
          shown.size(), drift.ops.size())});
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
