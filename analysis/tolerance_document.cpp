#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "analysis/text.hpp"
#include "analysis/tolerance.hpp"

namespace driftbound::analysis {
namespace {

std::string_view name_of_input(const ToleranceRequest& request) {
  return request.scaled_input.empty() ? format(request.input).name : std::string_view(request.scaled_input);
}

/// "bf16 operands"
std::string operands_text(const ToleranceRequest& request) {
  return fmt::format("{} operands{}", name_of_input(request),
                     request.input == FormatId::tf32 ? " (float32, rounded to nearest where they are read)" : "");
}

/// "gemm, k = 4096: bf16 operands, fp32 sums, bf16 results"
std::string subject_of(const ToleranceReport& report) {
  const ToleranceRequest& request = report.request;
  std::string text = request.op;
  if (request.k > 0) text += fmt::format(", k = {}", request.k);
  std::string shapes;
  for (const StoredTensor& operand : request.data) shapes += (shapes.empty() ? "" : ", ") + to_string(operand.shape());
  if (!shapes.empty()) text += fmt::format(" of {}", shapes);
  if (request.keys > 0) text += fmt::format(", {} keys", request.keys);
  if (request.has_bias) text += ", bias";
  if (request.epsilon) text += fmt::format(", epsilon {:g}", *request.epsilon);
  if (request.scale) text += fmt::format(", scale {:g}", *request.scale);
  if (request.is_causal) text += ", causal";
  return text + fmt::format(": {}, {} sums, {} results", operands_text(request), format(request.accumulator).name,
                            format(request.output).name);
}

/// What the weakest matrix unit may be off by, where the request names no device.
std::string sentence_of_units(const ToleranceReport& report) {
  if (report.asked == report.parts.size()) return "";
  const ToleranceOf& part = report.parts[report.asked];
  const auto same_data =
      std::find_if(report.parts.begin(), report.parts.begin() + static_cast<std::ptrdiff_t>(report.asked),
                   [&](const ToleranceOf& one) { return one.data == part.data; });
  const bool is_same_data = part.data == report.parts.front().data;
  const bool is_more = !(part.proven <= same_data->proven);
  return fmt::format("The weakest matrix unit known for {}, {}, may be off by {}{}{} ({}); --device names yours. ",
                     name_of_input(report.request), part.kernels, bound_text(part.proven),
                     is_same_data ? "" : " for " + part.data, is_more ? "" : ", as sums in fp32 may be",
                     name_of(part.tolerance.guarantee));
}

std::string headline_of(const ToleranceReport& report) {
  const ToleranceOf& part = report.parts.front();
  if (!std::isfinite(part.proven))
    return fmt::format("NO TOLERANCE for {}: results may leave the format.", subject_of(report));
  return fmt::format(
      "{} for {}. {}: no kernel with {} is off by more ({}); {} at {:.0e}. {}Two kernels differ by twice that.",
      bound_text(part.proven), part.data, subject_of(report), part.kernels, name_of(part.tolerance.guarantee),
      bound_text(part.by_chance), report.request.failure_probability, sentence_of_units(report));
}

Table table_of(const ToleranceReport& report) {
  Table table{
      {{"data", 33, true}, {"|result|", 8}, {"proven", 8}, {"at chance", 9}, {"estimate", 8}, {"kernels", 24, true}}};
  for (const ToleranceOf& part : report.parts)
    table.rows.push_back({{part.data, Number{part.largest_result, Form::error}, Number{part.proven, Form::bound},
                           Number{part.by_chance, Form::bound},
                           part.estimate ? Cell(Number{*part.estimate, Form::bound}) : Cell(), part.kernels}});
  return table;
}

Json fields_of(const ToleranceReport& report) {
  Json parts = Json::array();
  for (const ToleranceOf& part : report.parts)
    parts.push_back(object("data"_key = part.data, "kernels"_key = part.kernels,
                           "device"_key = part.device.empty() ? Json() : Json(part.device),
                           "elements"_key = part.tolerance.exact.size(), "shape"_key = part.tolerance.exact.shape,
                           "largest_result"_key = part.largest_result,
                           "guarantee"_key = name_of(part.tolerance.guarantee), "proven"_key = part.proven,
                           "by_chance"_key = part.by_chance, "estimate"_key = part.estimate,
                           "assumptions"_key = part.tolerance.assumptions));
  const ToleranceRequest& request = report.request;
  return object("schema"_key = "driftbound/tolerance/1", "version"_key = DRIFTBOUND_VERSION, "date"_key = report.date,
                "command"_key = report.command, "op"_key = request.op, "k"_key = request.k, "keys"_key = request.keys,
                "bias"_key = request.has_bias, "epsilon"_key = request.epsilon, "scale"_key = request.scale,
                "causal"_key = request.is_causal, "stores_inside"_key = request.stores_inside,
                "magnitude"_key = request.magnitude, "input"_key = name_of_input(request),
                "accumulator"_key = format(request.accumulator).name, "output"_key = format(request.output).name,
                "order"_key = to_string(request.order), "functions"_key = request.functions,
                "device"_key = request.device.empty() ? Json() : Json(request.device),
                "promotion"_key = request.promotion, "failure_probability"_key = request.failure_probability,
                "seed"_key = request.seed, "operands"_key = report.op.operands, "formula"_key = report.op.formula,
                "parts"_key = parts, "seconds"_key = report.seconds);
}

}  // namespace

Document document_of(const ToleranceReport& report) {
  Document document;
  document.verb = "tolerance";
  document.title = report.request.op;
  document.date = report.date;
  document.seconds = report.seconds;
  const bool is_known = std::isfinite(report.parts.front().proven);
  document.verdict = is_known ? Status::holds : Status::undecided;
  document.headline = headline_of(report);
  Section formula = {
      Paragraph{fmt::format("To first order: {}. u = 2^-{} of the sums, u' = 2^-{} of the result; y: the exact result.",
                            report.op.formula, format(report.request.accumulator).precision,
                            format(report.request.output).precision)},
      Paragraph{fmt::format("Operands: {}.", report.op.operands)}};
  for (std::size_t i = 0; i < report.parts.size(); ++i)
    if (i == 0 || i == report.asked)
      for (const std::string& assumption : report.parts[i].tolerance.assumptions)
        formula.push_back(Paragraph{
            fmt::format("{}ssumes {}", i == 0 ? "A" : report.parts[i].kernels + ": a", assumption), Style::plain});
  document.sections = {{}, {table_of(report)}, std::move(formula)};
  document.fields = fields_of(report);
  document.records = table_of(report);
  document.cases = {{"tolerance", report.request.op, document.verdict, document.headline}};
  document.exit_status = is_known ? 0 : 1;
  return document;
}

}  // namespace driftbound::analysis
