#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/replay_text.hpp"

namespace driftbound::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

std::string hex(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, std::abs(x), std::chars_format::hex).ptr;
  return (std::signbit(x) ? "-0x" : "0x") + std::string(text, end);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json to_json(const std::optional<KappaSummary>& kappa) {
  if (!kappa) return nullptr;
  return {{"median", number(kappa->median)}, {"p99", number(kappa->p99)}, {"max", number(kappa->max)}};
}

Json to_json(const BoundSummary& bound) {
  return {{"name", bound.name},
          {"guarantee", name_of(bound.guarantee)},
          {"question", name_of(bound.question)},
          {"theorem", bound.theorem},
          {"condition", text_or_null(bound.condition)},
          {"failure_probability", bound.failure_probability ? number(*bound.failure_probability) : Json(nullptr)},
          {"not_applicable", text_or_null(bound.not_applicable)},
          {"without_statement", bound.without_statement},
          {"max_bound", number(bound.max_bound)},
          {"max_utilisation", number(bound.max_utilisation)},
          {"median_bound_over_error",
           bound.median_bound_over_error ? number(*bound.median_bound_over_error) : Json(nullptr)},
          {"violations", bound.violations},
          {"checked", bound.checked},
          {"undecided", bound.undecided},
          {"not_certifiable", bound.not_certifiable},
          {"remainder_share", bound.remainder_share ? number(*bound.remainder_share) : Json(nullptr)},
          {"smallest", bound.is_smallest ? Json(*bound.is_smallest) : Json(nullptr)},
          {"seconds", number(bound.seconds)}};
}

Json to_json(const WorstCase& worst) {
  return {{"sample", worst.sample},
          {"element", worst.element},
          {"computed", number(worst.computed)},
          {"computed_hex", hex(worst.computed)},
          {"reference", number(worst.reference)},
          {"reference_hex", hex(worst.reference)},
          {"error", number(worst.error)},
          {"error_hex", hex(worst.error)},
          {"bound", number(worst.bound)},
          {"bound_hex", hex(worst.bound)}};
}

Json to_json(const ScopeSummary& scope) {
  Json bounds = Json::array();
  for (const BoundSummary& bound : scope.bounds) bounds.push_back(to_json(bound));
  return {{"max_error", number(scope.max_error)},
          {"rms_error", number(scope.rms_error)},
          {"max_ulps", number(scope.max_ulps)},
          {"bit_exact", number(scope.bit_exact)},
          {"reference_radius", number(scope.reference_radius)},
          {"bounds", bounds},
          {"worst", scope.worst ? to_json(*scope.worst) : Json(nullptr)}};
}

Json number_or_null(const std::optional<double>& x) {
  return x && std::isfinite(*x) ? Json(*x) : Json(nullptr);
}

Json to_json(const std::optional<Breakdown>& breakdown) {
  if (!breakdown) return nullptr;
  Json layers = Json::array();
  for (const LayerPart& part : breakdown->layers)
    layers.push_back({{"layer", part.layer},
                      {"part", number(part.part)},
                      {"bound_share", number_or_null(part.bound_share)},
                      {"condition", part.condition ? number(*part.condition) : Json(nullptr)},
                      {"local", number_or_null(part.local)}});
  return {{"sample", breakdown->sample},
          {"error", number(breakdown->error)},
          {"inputs", number(breakdown->inputs)},
          {"layers", layers}};
}

/// The breakdown that speaks for the whole report: of the first output or scalar that has one.
const Breakdown* first_breakdown(const Comparison& comparison) {
  for (const OutputSummary& output : comparison.outputs)
    if (output.breakdown) return &*output.breakdown;
  return nullptr;
}

Json attribution_json(std::size_t layer, const Breakdown* breakdown) {
  if (!breakdown || layer >= breakdown->layers.size()) return {{"share", nullptr}};
  return {{"share", number_or_null(breakdown->share_of_error(breakdown->layers[layer].part))}};
}

Json to_json(const LayerSummary& layer, const Breakdown* breakdown) {
  return {{"index", layer.index},
          {"name", layer.name},
          {"op", layer.op},
          {"fan_in", layer.fan_in},
          {"outputs", layer.outputs},
          {"compared", layer.compared},
          {"checked", layer.checked},
          {"gamma_n", number(layer.gamma_n)},
          {"kappa", to_json(layer.kappa)},
          {"ambiguous", layer.ambiguous ? Json(*layer.ambiguous) : Json(nullptr)},
          {"reading", layer.reading ? Json(name_of(*layer.reading)) : Json(nullptr)},
          {"differing", layer.differing ? Json(*layer.differing) : Json(nullptr)},
          {"non_finite", layer.non_finite},
          {"explained_by", text_or_null(layer.explained_by)},
          {"local", to_json(layer.local)},
          {"accumulated", to_json(layer.accumulated)},
          {"attribution", attribution_json(layer.index, breakdown)},
          {"status", name_of(layer.status)}};
}

Json to_json(const std::optional<BoxSummary>& box) {
  if (!box) return nullptr;
  Json ranges = Json::array();
  for (const auto& [lower, upper] : box->ranges) ranges.push_back({number(lower), number(upper)});
  const BoxBound& bound = box->bound;
  return {{"ranges", std::move(ranges)},
          {"error", number(bound.error.value())},
          {"lower", number(bound.range.lower())},
          {"upper", number(bound.range.upper())},
          {"remainder_share", number(bound.remainder_share)},
          {"guarantee", name_of(bound.guarantee)},
          {"theorem", "T-77"},
          {"condition", text_or_null(bound.condition)}};
}

Json to_json(const std::optional<SignCounts>& signs) {
  if (!signs) return nullptr;
  return {{"right", signs->right}, {"wrong", signs->wrong}, {"open", signs->open}};
}

Json to_json(const OutputSummary& output) {
  Json json = {{"name", output.name}};
  json.update(to_json(output.scope));
  json["signs"] = to_json(output.signs);
  json["kappa"] = to_json(output.kappa);
  json["condition"] = to_json(output.condition);
  json["box"] = to_json(output.box);
  json["breakdown"] = to_json(output.breakdown);
  json["status"] = name_of(output.status);
  return json;
}

Json model_json(const ReportContext& c) {
  return {{"file", c.model_file},
          {"sha256", c.model_sha256},
          {"format", c.model_format},
          {"parameters", c.parameters},
          {"nodes", c.nodes}};
}

Json inputs_json(const ReportContext& c, std::int64_t samples) {
  Json json;
  if (c.inputs_generator.empty())
    json["file"] = c.inputs_file;
  else
    json["generator"] = c.inputs_generator;
  json["sha256"] = c.inputs_sha256;
  json["samples"] = samples;
  json["seed"] = c.inputs_generator.empty() ? Json(nullptr) : Json(c.seed);
  json["domain"] = text_or_null(c.domain);
  return json;
}

Json replay_json(const Comparison& comparison) {
  if (!is_compared_with_replay(comparison)) return nullptr;
  const LayerSummary* first = first_difference(comparison);
  return {{"same", first == nullptr}, {"first_difference", first ? Json(first->name) : Json(nullptr)}};
}

Json run_json(const Report& report) {
  const ReportContext& c = report.context;
  Json rungs = Json::object();
  for (const auto& [bits, count] : report.comparison.rungs) rungs[std::to_string(bits)] = count;
  return {{"backend", c.backend},
          {"device", c.device},
          {"gemm", text_or_null(c.gemm)},
          {"arithmetic", Json::parse(to_json(c.arithmetic))},
          {"order", to_string(c.arithmetic.order)},
          {"batch", c.batch > 0 ? Json(c.batch) : Json(nullptr)},
          {"threshold", report.comparison.threshold},
          {"assumptions", report.comparison.assumptions},
          {"reference",
           {{"rungs", rungs},
            {"max_bits", report.comparison.max_bits},
            {"undecided", report.comparison.reference_undecided}}},
          {"replay", replay_json(report.comparison)},
          {"observer_effect", name_of(c.observer_effect)},
          {"interrupted", c.interrupted}};
}

Json closest_json(const std::optional<ClosestApproach>& closest) {
  if (!closest) return nullptr;
  return {{"layer", closest->layer},
          {"scope", closest->scope},
          {"bound", closest->bound},
          {"utilisation", number(closest->utilisation)}};
}

}  // namespace

std::string to_json(const Report& report) {
  const ReportContext& c = report.context;
  Json layers = Json::array();
  const Breakdown* breakdown = first_breakdown(report.comparison);
  for (const LayerSummary& layer : report.comparison.layers) layers.push_back(to_json(layer, breakdown));
  Json outputs = Json::array();
  for (const OutputSummary& output : report.comparison.outputs) outputs.push_back(to_json(output));
  const Json json = {{"schema", "driftbound/report/1"},
                     {"version", DRIFTBOUND_VERSION},
                     {"date", c.date},
                     {"seconds", number(c.seconds)},
                     {"command", c.command},
                     {"model", model_json(c)},
                     {"inputs", inputs_json(c, report.comparison.samples)},
                     {"run", run_json(report)},
                     {"layers", layers},
                     {"end_to_end", {{"outputs", outputs}}},
                     {"verdict", name_of(report.comparison.verdict)},
                     {"closest", closest_json(report.comparison.closest)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace driftbound::analysis
