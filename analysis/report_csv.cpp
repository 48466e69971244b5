#include <fmt/format.h>

#include "analysis/report.hpp"

namespace driftbound::analysis {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

std::string rows(const std::string& layer, const std::string& op, std::int64_t fan_in, const char* scope_name,
                 const ScopeSummary& scope, Status status, const std::optional<KappaSummary>& condition) {
  std::string text;
  for (const BoundSummary& bound : scope.bounds)
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", quoted(layer), op, fan_in, scope_name,
                        scope.max_error, scope.rms_error, scope.max_ulps, bound.name, name_of(bound.guarantee),
                        bound.max_bound, bound.max_utilisation, bound.violations, bound.undecided, bound.checked,
                        name_of(status), bound.failure_probability ? fmt::format("{}", *bound.failure_probability) : "",
                        condition ? fmt::format("{}", condition->median) : "");
  return text;
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string text =
      "layer,op,fan_in,scope,max_error,rms_error,max_ulps,bound,guarantee,max_bound,max_utilisation,violations,"
      "undecided,checked,status,failure_probability,condition\n";
  for (const LayerSummary& layer : report.comparison.layers) {
    text += rows(layer.name, layer.op, layer.fan_in, "local", layer.local, layer.status, layer.kappa);
    text += rows(layer.name, layer.op, layer.fan_in, "accumulated", layer.accumulated, layer.status, layer.kappa);
  }
  for (const OutputSummary& output : report.comparison.outputs)
    text += rows(output.name, "", 0, "end_to_end", output.scope, output.status, output.condition);
  return text;
}

}  // namespace driftbound::analysis
