#include <fmt/format.h>

#include <cmath>

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

/// "gemm, k = 4096: bf16 operands, fp32 sums in any order, bf16 results"
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
  const bool is_known = request.order.kind != SummationOrder::Kind::unknown;
  return text + fmt::format(": {}, {} sums in {}, {} results", operands_text(request), format(request.accumulator).name,
                            is_known ? "order " + to_string(request.order) : "any order", format(request.output).name);
}

std::string headline_of(const ToleranceReport& report) {
  const ToleranceOf& part = report.parts.front();
  if (!std::isfinite(part.proven))
    return fmt::format("NO TOLERANCE for {}: results may leave the format.", subject_of(report));
  return fmt::format("{} for {}. {}: no kernel is off by more ({}); {} at {:.0e}. Two kernels differ by twice that.",
                     bound_text(part.proven), part.data, subject_of(report), name_of(part.tolerance.guarantee),
                     bound_text(part.by_chance), report.request.failure_probability);
}

Table table_of(const ToleranceReport& report) {
  Table table{{{"data", 40, true}, {"|result|", 9}, {"proven", 9}, {"at chance", 9}, {"estimate", 9}}};
  for (const ToleranceOf& part : report.parts)
    table.rows.push_back(
        {{part.data, Number{part.largest_result, Form::error}, Number{part.proven, Form::bound},
          Number{part.by_chance, Form::bound}, part.estimate ? Cell(Number{*part.estimate, Form::bound}) : Cell()}});
  return table;
}

Json fields_of(const ToleranceReport& report) {
  Json parts = Json::array();
  for (const ToleranceOf& part : report.parts)
    parts.push_back(object("data"_key = part.data, "elements"_key = part.tolerance.exact.size(),
                           "shape"_key = part.tolerance.exact.shape, "largest_result"_key = part.largest_result,
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
                "failure_probability"_key = request.failure_probability, "seed"_key = request.seed,
                "operands"_key = report.op.operands, "formula"_key = report.op.formula, "parts"_key = parts,
                "seconds"_key = report.seconds);
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
  for (const std::string& assumption : report.parts.front().tolerance.assumptions)
    formula.push_back(Paragraph{"Assumes " + assumption, Style::plain});
  document.sections = {{}, {table_of(report)}, std::move(formula)};
  document.fields = fields_of(report);
  document.records = table_of(report);
  document.cases = {{"tolerance", report.request.op, document.verdict, document.headline}};
  document.exit_status = is_known ? 0 : 1;
  return document;
}

}  // namespace driftbound::analysis
