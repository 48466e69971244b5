#include <fmt/format.h>

#include <algorithm>

#include "analysis/probe_report.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

std::string_view words_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return "to nearest, ties to even";
    case Rounding::nearest_away:
      return "to nearest, ties away from zero";
    case Rounding::toward_zero:
      return "toward zero";
    case Rounding::up:
      return "upward";
    case Rounding::down:
      return "downward";
  }
  return "";
}

std::string_view key_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return "nearest-even";
    case Rounding::nearest_away:
      return "nearest-away";
    case Rounding::toward_zero:
      return "toward-zero";
    case Rounding::up:
      return "up";
    case Rounding::down:
      return "down";
  }
  return "";
}

std::string shape_text(const ProductShape& shape, bool is_sum) {
  return is_sum ? fmt::format("{} rows of {}", shape.m, shape.k)
                : fmt::format("[{}, {}] x [{}, {}]", shape.m, shape.k, shape.k, shape.n);
}

/// The shape, and which of several kernels.
std::string place_text(const ProbedShape& probed, bool is_sum) {
  return shape_text(probed.shape, is_sum) + (probed.variant.empty() ? "" : ", " + probed.variant);
}

std::string kept_or_flushed(const std::optional<bool>& is_kept) {
  return !is_kept ? "not known" : *is_kept ? "kept" : "flushed to zero";
}

std::string reading_text(const ProbedReading& reading) {
  const std::optional<FormatId> id = reading.format();
  std::string text =
      id ? std::string(format(*id).name) : fmt::format("{} bits, up to 2^{}", reading.precision, reading.highest_power);
  if (reading.precision >= 24) return text + ", as they are";
  return text + (reading.rounding ? fmt::format(", rounded {}", words_of(*reading.rounding)) : ", rounded unlike IEEE");
}

std::string result_text(const ProbedResult& result) {
  if (!result.is_narrow()) return "no narrower than float32";
  return fmt::format("{}, rounded {}", format(result.format).name,
                     result.rounding ? words_of(*result.rounding) : "in a way that is not known here");
}

std::string sums_text(const SumRounding& sums) {
  if (sums.is_hidden && sums.precision >= 24) return "not seen: results are rounded, or operands show too few bits";
  return fmt::format("{} bits, {}", sums.precision, sums.rounding ? words_of(*sums.rounding) : "rounding not seen");
}

std::string steps_text(const StepArithmetic& steps) {
  const std::string bits = steps.fraction_bits
                               ? fmt::format("cut {} bits behind the largest addend", *steps.fraction_bits)
                               : "not cut within what operands can show";
  return fmt::format("{} products and the running sum at a time, {}; sums {}", steps.block, bits,
                     sums_text(steps.sums));
}

/// "all", "none" or how many products are added without being rounded.
std::string fused_text(const ProbeFindings& findings) {
  const SummationTree& tree = findings.tree();
  const bool are_doubles = findings.additions && findings.additions->precision == 53;
  if (tree.fused.empty() || are_doubles) return "not seen: products are exact";
  const auto count = std::count(tree.fused.begin(), tree.fused.end(), true);
  if (count == 0) return "no: every product is rounded";
  return fmt::format("yes: {} of {} products are not rounded before they are added", count, tree.leaves);
}

std::string bits_text(const ElementClass& found) {
  if (found.verified == 0) return "not verified";
  return fmt::format("{} of {}", found.equal_bits, found.verified);
}

/// Whether steps keep the bits that are declared: exactly so many, or so many at least.
bool keeps(const StepArithmetic& steps, int declared, bool is_exact) {
  if (!steps.fraction_bits) return !is_exact || declared >= steps.visible_bits;
  return is_exact ? *steps.fraction_bits == declared : *steps.fraction_bits >= declared;
}

/// What steps have other than the matrix unit that is declared. Where its order is declared too, the unit is a kernel and
/// has exactly this block and these bits; else it has them at least.
std::string difference_of_steps(const ArithmeticModel& declared, const ProbeFindings& findings) {
  const TensorCore& unit = *declared.tensor_core;
  const std::int64_t visible_block = std::min<std::int64_t>(unit.block, findings.tree().leaves);
  const bool has_wide_steps = visible_block > 2 || (visible_block == 2 && findings.tree().leaves > 3);
  if (!has_wide_steps && !findings.steps) return "";
  const bool is_exact = declared.order.gives_partial_sums();
  const std::string is_declared = fmt::format(
      "steps of {} products that keep {} bits behind the largest addend are declared", unit.block, unit.fraction_bits);
  const std::optional<StepArithmetic>& steps = findings.steps;
  if (!steps) return is_declared + ", and only additions of two terms were found.";
  const bool has_block = is_exact ? steps->block == visible_block : steps->block >= visible_block;
  if (has_block && keeps(*steps, unit.fraction_bits, is_exact)) return "";
  return fmt::format("{}, and found: {}.", is_declared, steps_text(*steps));
}

/// Parts of a sum that are rounded although that is not declared, or to other bits than declared. Parts that are declared to be
/// rounded may be whole sums, whose rounding is that of results.
std::string difference_of_parts(const ArithmeticModel& declared, const ProbeFindings& findings) {
  if (!findings.parts) return "";
  const std::string are_found = "sums of parts of a product were found to have " + sums_text(*findings.parts);
  if (!declared.reduced_reduction) return are_found + ", which is not declared.";
  const Format& part = format(declared.reduced_reduction->format);
  if (findings.parts->precision == part.precision) return "";
  return are_found + ", and are declared to be rounded to " + std::string(part.name) + ".";
}

Table facts_of(const ProbeFindings& findings, bool is_sum) {
  Table table{{{"", 18, true}, {"found", 60, true}}};
  const auto add = [&](const char* name, std::string text) {
    table.rows.push_back({{std::string(name), std::move(text)}});
  };
  add("order", to_string(findings.order));
  add(is_sum ? "operand" : "left operand", reading_text(findings.left));
  if (!is_sum) add("right operand", reading_text(findings.right));
  if (!is_sum) add("fused multiply-add", fused_text(findings));
  if (findings.additions) add("additions", sums_text(*findings.additions));
  if (findings.steps) add("steps", steps_text(*findings.steps));
  const std::vector<bool>& parts = findings.classes.front().rounded_parts;
  if (findings.parts)
    add("sums of parts", fmt::format("{} of {} sums: {}", std::count(parts.begin(), parts.end(), true), parts.size(),
                                     sums_text(*findings.parts)));
  const std::vector<bool>& products = findings.classes.front().rounded_products;
  if (const auto rounded = std::count(products.begin(), products.end(), true); rounded > 0)
    add("products",
        fmt::format("{} of {} are rounded as additions are before they are added", rounded, findings.tree().leaves));
  add("results", result_text(findings.result));
  add("subnormals", fmt::format("operands {}, results {}", kept_or_flushed(findings.left.keeps_subnormals()),
                                kept_or_flushed(findings.keeps_subnormal_results)));
  return table;
}

Section section_of(const ProbeReport& report, const ProbedShape& probed) {
  Section section;
  const std::string shape = place_text(probed, report.is_sum);
  if (!probed.unexplained.empty()) {
    section.push_back(Paragraph{shape, Style::heading});
    section.push_back(Paragraph{"No tree explains it. " + probed.unexplained, Style::warning});
    return section;
  }
  if (probed.repeated) {
    const RepeatedCalls& calls = *probed.repeated;
    const std::string text =
        calls.differing_calls == 0
            ? fmt::format("{}: {} calls with the same numbers, the same bits.", shape, calls.calls)
            : fmt::format(
                  "{}: {} of {} calls differ from the first, in {} elements. First: call {}, element {}: {} "
                  "in place of {}.",
                  shape, calls.differing_calls, calls.calls, calls.differing_elements, calls.first_call + 1,
                  calls.first_element, calls.other, calls.first);
    section.push_back(Paragraph{text, calls.differing_calls == 0 ? Style::plain : Style::wrong});
    return section;
  }
  const ProbeFindings& findings = *probed.findings;
  section.push_back(Paragraph{shape, Style::heading});
  section.push_back(facts_of(findings, report.is_sum));
  for (const std::string& difference : report.differences(probed))
    section.push_back(Paragraph{difference, Style::wrong});
  for (const ElementClass& found : findings.classes) {
    const std::string what =
        findings.classes.size() == 1
            ? "All elements"
            : fmt::format("{} elements, the first at [{}, {}]", found.elements, found.first_row, found.first_column);
    if (!found.tree) {
      section.push_back(Paragraph{fmt::format("{}: no tree. {}", what, found.reason), Style::warning});
      continue;
    }
    section.push_back(Paragraph{fmt::format("{}: {}. Height {}. Same bits on random data: {}.", what,
                                            words_for(*found.tree), found.tree->height(), bits_text(found))});
    if (!found.reason.empty()) section.push_back(Paragraph{found.reason, Style::warning});
    if (std::string svg = draw_tree(*found.tree); !svg.empty()) section.push_back(Figure{std::move(svg)});
    if (found.tree->leaves > most_drawn_leaves)
      section.push_back(Paragraph{
          fmt::format("The drawing has groups of terms as one leaf, with the first and the last of them, since the "
                      "tree has more than {} terms. JSON has every node.",
                      most_drawn_leaves),
          Style::explanation, Medium::page});
  }
  return section;
}

bool is_settled(const ProbedShape& probed) {
  if (probed.repeated) return probed.repeated->differing_calls == 0;
  return probed.findings && probed.findings->is_confirmed();
}

/// The first thing that is not as it should be.
struct Complaint {
  ProbeVerdict verdict = ProbeVerdict::confirmed;
  std::string text = {};
};

Complaint complaint_of(const ProbeReport& report) {
  for (const ProbedShape& probed : report.shapes) {
    const std::string shape = place_text(probed, report.is_sum);
    if (const auto differences = report.differences(probed); !differences.empty())
      return {ProbeVerdict::differs, fmt::format("DIFFERS from what is declared, {}: {}", shape, differences.front())};
    if (probed.repeated && !is_settled(probed))
      return {ProbeVerdict::not_deterministic,
              fmt::format("NOT DETERMINISTIC, {}: {} of {} calls with the same numbers differ.", shape,
                          probed.repeated->differing_calls, probed.repeated->calls)};
  }
  for (const ProbedShape& probed : report.shapes)
    if (!is_settled(probed))
      return {ProbeVerdict::not_verified,
              fmt::format("NOT CONFIRMED, {}: some elements have no tree, or none that was verified.",
                          place_text(probed, report.is_sum))};
  return {};
}

std::string headline_of(const ProbeReport& report) {
  if (const std::string complaint = complaint_of(report).text; !complaint.empty())
    return fmt::format("{}: {}", report.kernel, complaint);
  const ProbedShape& first = report.shapes.front();
  const bool is_variant = report.shapes.size() == 1 && !first.variant.empty();
  const std::string kernel = report.kernel + (is_variant ? ", " + first.variant : "");
  if (first.repeated)
    return fmt::format("{}: SAME BITS in {} calls with the same numbers.", kernel, first.repeated->calls);
  const auto same = [&](const ProbedShape& probed) {
    return probed.findings->classes.size() == 1 && probed.findings->tree().same_sums(first.findings->tree());
  };
  const bool is_one = std::all_of(report.shapes.begin(), report.shapes.end(), same);
  return fmt::format("{}: {}{}. Every tree gives the kernel's bits on random data.", kernel,
                     report.expected ? "AS DECLARED, " : "FOUND, ",
                     is_one ? words_for(first.findings->tree())
                            : std::string("several trees: elements, batch sizes or algorithms differ"));
}

Json json_of_reading(const ProbedReading& reading) {
  const std::optional<FormatId> id = reading.format();
  return object("format"_key = id ? Json(format(*id).name) : Json(nullptr), "precision"_key = reading.precision,
                "rounding"_key = reading.rounding ? Json(key_of(*reading.rounding)) : Json(nullptr),
                "highest_power"_key = reading.highest_power, "lowest_power"_key = reading.lowest_power,
                "keeps_subnormals"_key = reading.keeps_subnormals());
}

Json json_of_sums(const SumRounding& sums) {
  return object("precision"_key = sums.precision,
                "rounding"_key = sums.rounding ? Json(key_of(*sums.rounding)) : Json(nullptr),
                "hidden"_key = sums.is_hidden);
}

Json json_of_result(const ProbedResult& result) {
  return object("format"_key = format(result.format).name,
                "rounding"_key = result.rounding ? Json(key_of(*result.rounding)) : Json(nullptr));
}

Json json_of_tree(const SummationTree& tree) {
  return object("words"_key = words_for(tree), "height"_key = tree.height(), "order"_key = to_string(order_of(tree)),
                "leaves"_key = tree.leaves, "nodes"_key = tree.nodes, "fused"_key = tree.fused);
}

Json json_of_class(const ElementClass& found) {
  Json rounded = Json::array();
  for (std::size_t t = 0; found.tree && t < found.rounded_parts.size(); ++t)
    if (found.rounded_parts[t]) rounded.push_back(found.tree->leaves + static_cast<std::int64_t>(t));
  return object(
      "elements"_key = found.elements, "first_row"_key = found.first_row, "first_column"_key = found.first_column,
      "tree"_key = found.tree ? json_of_tree(*found.tree) : Json(nullptr), "rounded_parts"_key = rounded,
      "rounded_products"_key = std::count(found.rounded_products.begin(), found.rounded_products.end(), true),
      "reason"_key = text_or_null(found.reason), "equal_bits"_key = found.equal_bits, "verified"_key = found.verified);
}

Json json_of_findings(const ProbeFindings& findings) {
  Json classes = Json::array();
  for (const ElementClass& found : findings.classes) classes.push_back(json_of_class(found));
  Json steps = nullptr;
  if (findings.steps)
    steps = object("block"_key = findings.steps->block, "fraction_bits"_key = findings.steps->fraction_bits,
                   "sums"_key = json_of_sums(findings.steps->sums));
  return object("order"_key = to_string(findings.order), "left"_key = json_of_reading(findings.left),
                "right"_key = json_of_reading(findings.right), "result"_key = json_of_result(findings.result),
                "additions"_key = findings.additions ? json_of_sums(*findings.additions) : Json(nullptr),
                "steps"_key = steps, "parts"_key = findings.parts ? json_of_sums(*findings.parts) : Json(nullptr),
                "keeps_subnormal_results"_key = findings.keeps_subnormal_results, "classes"_key = classes,
                "confirmed"_key = findings.is_confirmed(), "calls"_key = findings.calls, "masks"_key = findings.masks);
}

Json json_of_repeated(const RepeatedCalls& calls) {
  const bool differs = calls.first_call >= 0;
  const auto where = [&](std::int64_t index) { return differs ? Json(index) : Json(nullptr); };
  return object("calls"_key = calls.calls, "differing_calls"_key = calls.differing_calls,
                "differing_elements"_key = calls.differing_elements, "first_call"_key = where(calls.first_call),
                "first_element"_key = where(calls.first_element));
}

Json fields_of(const ProbeReport& report, bool agrees) {
  Json shapes = Json::array();
  for (const ProbedShape& probed : report.shapes)
    shapes.push_back(object("m"_key = probed.shape.m, "k"_key = probed.shape.k, "n"_key = probed.shape.n,
                            "findings"_key = probed.findings ? json_of_findings(*probed.findings) : Json(nullptr),
                            "repeated"_key = probed.repeated ? json_of_repeated(*probed.repeated) : Json(nullptr),
                            "differences"_key = report.differences(probed),
                            "algorithm"_key = text_or_null(probed.variant),
                            "unexplained"_key = text_or_null(probed.unexplained), "seconds"_key = probed.seconds));
  return object("schema"_key = "driftbound/probe/1", "version"_key = DRIFTBOUND_VERSION, "date"_key = report.date,
                "command"_key = report.command, "kernel"_key = report.kernel,
                "operation"_key = report.is_sum ? "sum" : "product",
                "declared_order"_key = report.expected ? Json(to_string(*report.expected)) : Json(nullptr),
                "agrees"_key = agrees, "shapes"_key = shapes, "seconds"_key = report.seconds);
}

Table records_of(const ProbeReport& report) {
  Table table{{{"m", 6},
               {"k", 6},
               {"n", 6},
               {"elements", 9},
               {"order", 16, true},
               {"height", 6},
               {"equal bits", 10},
               {"verified", 8},
               {"tree", 40, true},
               {"algorithm", 40, true}}};
  for (const ProbedShape& probed : report.shapes) {
    const Cell algorithm = probed.variant.empty() ? Cell() : Cell(Name{probed.variant});
    if (!probed.unexplained.empty()) {
      std::vector<Cell> cells = {probed.shape.m, probed.shape.k, probed.shape.n};
      cells.resize(table.columns.size());
      cells.back() = algorithm;
      table.rows.push_back({std::move(cells)});
    }
    if (!probed.findings) continue;
    for (const ElementClass& found : probed.findings->classes) {
      std::vector<Cell> cells = {probed.shape.m, probed.shape.k, probed.shape.n, found.elements};
      if (found.tree)
        cells.insert(cells.end(), {to_string(order_of(*found.tree, probed.findings->order)), found.tree->height(),
                                   found.equal_bits, found.verified, Name{words_for(*found.tree)}});
      cells.resize(table.columns.size());
      cells.back() = algorithm;
      table.rows.push_back({std::move(cells)});
    }
  }
  return table;
}

}  // namespace

std::vector<std::string> ProbeReport::differences(const ProbedShape& probed) const {
  std::vector<std::string> found;
  if (!probed.findings) return found;
  if (expected)
    for (const ElementClass& one : probed.findings->classes)
      if (one.tree && order_of(*one.tree, *expected) != *expected)
        found.push_back(fmt::format("the order is declared as {} and found to be {}: {}.", to_string(*expected),
                                    to_string(order_of(*one.tree)), words_for(*one.tree)));
  if (declared && declared->tensor_core)
    if (std::string text = difference_of_steps(*declared, *probed.findings); !text.empty())
      found.push_back(std::move(text));
  if (declared)
    if (std::string text = difference_of_parts(*declared, *probed.findings); !text.empty())
      found.push_back(std::move(text));
  const auto compare = [&](const char* side, const ProbedReading& reading) {
    if (declared && reading.format() != declared->input)
      found.push_back(fmt::format("{} operands are declared to be read as {} and found to be read as {}.", side,
                                  format(declared->input).name, reading_text(reading)));
  };
  compare("left", probed.findings->left);
  compare("right", probed.findings->right);
  const ProbedResult& result = probed.findings->result;
  const FormatId stored = declared && declared->output != FormatId::fp64 ? declared->output : FormatId::fp32;
  const bool rounds_sums = declared && declared->reduced_reduction && declared->reduced_reduction->rounds_sums;
  const bool is_rounded_sum = rounds_sums && declared->reduced_reduction->format == result.format;
  if (declared && stored != result.format && !is_rounded_sum)
    found.push_back(fmt::format("results are declared to be stored in {} and found to be {}.", format(stored).name,
                                result_text(result)));
  return found;
}

ProbeVerdict ProbeReport::verdict() const {
  return complaint_of(*this).verdict;
}

Document document_of(const ProbeReport& report) {
  Document document;
  document.verb = "probe";
  document.title = report.kernel;
  document.date = report.date;
  document.seconds = report.seconds;
  const bool agrees = report.verdict() == ProbeVerdict::confirmed;
  document.verdict = agrees ? Status::holds : Status::undecided;
  document.headline = headline_of(report);
  document.sections = {{}};
  for (const ProbedShape& probed : report.shapes) document.sections.push_back(section_of(report, probed));
  document.fields = fields_of(report, agrees);
  document.records = records_of(report);
  document.cases = {{"probe", report.kernel, document.verdict, document.headline}};
  document.exit_status = agrees ? 0 : 1;
  return document;
}

}  // namespace driftbound::analysis
