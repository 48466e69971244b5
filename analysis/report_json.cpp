#include <charconv>
#include <cmath>

#include "analysis/report_parts.hpp"

namespace driftbound::analysis {
namespace {

std::string hex(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, std::abs(x), std::chars_format::hex).ptr;
  return (std::signbit(x) ? "-0x" : "0x") + std::string(text, end);
}

/// null where there is none, and where it is not finite.
Json finite_or_null(const std::optional<double>& x) {
  return x && std::isfinite(*x) ? Json(*x) : Json(nullptr);
}

Json to_json(const std::optional<KappaSummary>& kappa) {
  if (!kappa) return nullptr;
  return object("median"_key = kappa->median, "p99"_key = kappa->p99, "max"_key = kappa->max);
}

Json to_json(const BoundSummary& bound) {
  return object(
      "name"_key = name_of(bound.kind), "guarantee"_key = name_of(bound.guarantee),
      "question"_key = name_of(bound.question), "theorem"_key = bound.theorem,
      "condition"_key = text_or_null(bound.condition), "failure_probability"_key = bound.failure_probability,
      "not_applicable"_key = text_or_null(bound.not_applicable), "without_statement"_key = bound.without_statement,
      "max_bound"_key = bound.max_bound, "max_utilisation"_key = bound.max_utilisation,
      "median_bound_over_error"_key = bound.median_bound_over_error, "violations"_key = bound.violations,
      "checked"_key = bound.checked, "undecided"_key = bound.undecided, "not_certifiable"_key = bound.not_certifiable,
      "infinite"_key = bound.infinite, "remainder_share"_key = bound.remainder_share,
      "smallest"_key = bound.is_smallest, "seconds"_key = bound.seconds);
}

Json to_json(const WorstCase& worst) {
  return object("sample"_key = worst.sample, "element"_key = worst.element, "computed"_key = worst.computed,
                "computed_hex"_key = hex(worst.computed), "reference"_key = worst.reference,
                "reference_hex"_key = hex(worst.reference), "error"_key = worst.error,
                "error_hex"_key = hex(worst.error), "bound"_key = worst.bound, "bound_hex"_key = hex(worst.bound));
}

Json to_json(const ScopeSummary& scope) {
  Json bounds = Json::array();
  for (const BoundSummary& bound : scope.bounds) bounds.push_back(to_json(bound));
  return object("max_error"_key = scope.max_error, "rms_error"_key = scope.rms_error, "max_ulps"_key = scope.max_ulps,
                "bit_exact"_key = scope.bit_exact, "reference_radius"_key = scope.reference_radius,
                "scale"_key = scope.scale, "elements"_key = scope.elements, "decided"_key = scope.decided,
                "bounds"_key = bounds, "worst"_key = scope.worst ? to_json(*scope.worst) : Json(nullptr));
}

Json to_json(const std::optional<Breakdown>& breakdown) {
  if (!breakdown) return nullptr;
  Json layers = Json::array();
  for (const LayerPart& part : breakdown->layers)
    layers.push_back(object("layer"_key = part.layer, "part"_key = part.part,
                            "bound_share"_key = finite_or_null(part.bound_share), "condition"_key = part.condition,
                            "local"_key = finite_or_null(part.local)));
  return object("sample"_key = breakdown->sample, "error"_key = breakdown->error, "inputs"_key = breakdown->inputs,
                "layers"_key = layers);
}

/// The breakdown that speaks for the whole report: of the first output or scalar that has one.
const Breakdown* first_breakdown(const Comparison& comparison) {
  for (const OutputSummary& output : comparison.outputs)
    if (output.breakdown) return &*output.breakdown;
  return nullptr;
}

Json attribution_json(std::size_t layer, const Breakdown* breakdown) {
  if (!breakdown || layer >= breakdown->layers.size()) return object("share"_key = nullptr);
  return object("share"_key = finite_or_null(breakdown->share_of_error(breakdown->layers[layer].part)));
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(finite_or_null(value));
  return list;
}

Json to_json(const std::optional<VoidCase>& one) {
  if (!one) return nullptr;
  return object("sample"_key = one->sample, "element"_key = one->element, "computed"_key = one->computed,
                "operands"_key = numbers(one->operands), "exact_operands"_key = numbers(one->exact_operands),
                "exact"_key = finite_or_null(one->exact), "largest"_key = one->largest);
}

Json to_json(const std::optional<RecordSummary>& record) {
  if (!record) return nullptr;
  return object("op"_key = record->op, "module"_key = text_or_null(record->module),
                "arithmetic"_key = record->arithmetic, "device"_key = text_or_null(record->device),
                "rank"_key = record->rank, "result"_key = record->result, "elements"_key = record->elements,
                "judged"_key = record->judged, "draws"_key = record->draws > 0 ? Json(record->draws) : Json(nullptr),
                "infinite"_key = record->infinite, "lacking"_key = record->lacking);
}

Json to_json(const std::optional<RunSummary>& run) {
  if (!run) return nullptr;
  Json reasons = Json::array();
  for (const NotJudged& reason : run->reasons)
    reasons.push_back(object("op"_key = reason.op, "reason"_key = reason.why, "first"_key = reason.first,
                             "count"_key = reason.count));
  return object("records"_key = run->records, "views"_key = run->views, "not_judged"_key = run->not_judged,
                "reasons"_key = reasons, "problems"_key = run->problems,
                "draws"_key = run->draws > 0 ? Json(run->draws) : Json(nullptr),
                "from_input"_key = object("results"_key = run->from_input, "given"_key = run->given,
                                          "reason"_key = text_or_null(run->not_from_input)));
}

Json to_json(const ReadingPair& pair) {
  return object("left"_key = name_of(pair.left), "right"_key = name_of(pair.right),
                "variant"_key = text_or_null(pair.variant));
}

Json to_json(const std::optional<NearestReading>& reading) {
  if (!reading) return nullptr;
  Json alike = Json::array();
  for (const ReadingPair& pair : reading->alike) alike.push_back(to_json(pair));
  return object("nearest"_key = to_json(reading->nearest), "alike"_key = std::move(alike),
                "declared"_key = reading->is_declared, "other"_key = to_json(reading->other),
                "ratio"_key = reading->ratio, "elements"_key = reading->elements,
                "false_alarm"_key = reading->false_alarm, "decisive"_key = reading->is_decisive);
}

/// The parts of a kernel as SummationOrder writes them.
std::string order_text(const ProductKernel& kernel, const SumJoins& joins) {
  const bool fma = kernel.of_products && !kernel.matrix_unit && kernel.fma;
  if (joins.chains == 1) return to_string(SummationOrder{SummationOrder::Kind::sequential, 0, fma});
  return to_string(SummationOrder{SummationOrder::Kind::dealt, 0, fma, kernel.parts});
}

Json part_rounding_json(const ProductKernel& kernel, std::size_t parts) {
  if (kernel.part_format == FormatId::fp32 || parts < 2) return nullptr;
  return object("format"_key = format(kernel.part_format).name, "of_sums"_key = kernel.rounds_sums_of_parts);
}

/// "all" where all products at one place of the window follow each other; null: no convolution.
Json channels_json(const ProductKernel& kernel) {
  if (kernel.channels_together == 0) return nullptr;
  return kernel.channels_together == all_channels ? Json("all") : Json(kernel.channels_together);
}

/// Null where no member of the family gives all bits.
Json kernel_json(const std::optional<KernelFinding>& finding) {
  if (!finding || !finding->kernel) return nullptr;
  const ProductKernel& kernel = *finding->kernel;
  const auto of_unit = [&](int TensorCore::*number) {
    return kernel.matrix_unit ? Json((*kernel.matrix_unit).*number) : Json();
  };
  const SumSchedule schedule = schedule_of(kernel.parts, finding->k);
  const SumJoins& joins = schedule.joins;
  const std::size_t slices = joins.parts();
  const bool has_tree = !kernel.row || kernel.row->sums != RowSteps::Sums::running;
  const bool is_dealt = slices > 1 && kernel.parts.tree == SumTree::dealt;
  Json others = Json::array(), alike = Json::array();
  for (const KernelShare& other : finding->others)
    others.push_back(object("text"_key = describe(other.kernel, finding->k), "equal_bits"_key = other.numbers));
  for (const ProductKernel& other : finding->alike) alike.push_back(describe(other, finding->k));
  return object("text"_key = describe(kernel, finding->k), "reading"_key = reading_of_operands(kernel),
                "block"_key = of_unit(&TensorCore::block), "fraction_bits"_key = of_unit(&TensorCore::fraction_bits),
                "sum_bits"_key = of_unit(&TensorCore::sum_bits),
                "fma"_key = kernel.matrix_unit || !kernel.of_products ? Json() : Json(kernel.fma),
                "order"_key = has_tree ? Json(order_text(kernel, joins)) : Json(), "slices"_key = slices,
                "dealing"_key = is_dealt ? Json(name_of(kernel.parts.dealing.kind)) : Json(),
                "run"_key = is_dealt ? Json(kernel.parts.dealing.run) : Json(),
                "combine"_key = is_dealt ? Json(name_of(kernel.parts.combination)) : Json(),
                "height"_key = kernel.matrix_unit || !has_tree ? Json() : Json(height_of(schedule)),
                "part_rounding"_key = part_rounding_json(kernel, slices), "scaling"_key = name_of(kernel.scaling),
                "addend"_key = name_of(kernel.addend), "steps"_key = kernel.row ? Json(describe(*kernel.row)) : Json(),
                "channels_together"_key = channels_json(kernel), "equal_bits"_key = finding->equal_bits,
                "of"_key = finding->compared, "members_left"_key = finding->members_left,
                "tells"_key = finding->tells(), "others"_key = others, "alike"_key = alike,
                "estimate_chance_hits"_key = finding->estimate_chance_hits);
}

/// Null where a member gives all numbers, or the family was not compared.
Json nearest_json(const KernelFinding& finding) {
  if (!finding.nearest) return nullptr;
  const KernelDifference& nearest = *finding.nearest;
  return object("text"_key = describe(nearest.kernel, finding.k), "differing"_key = nearest.differing,
                "most_ulps"_key = nearest.most_ulps, "first"_key = nearest.first);
}

Json kernel_search_json(const std::optional<KernelFinding>& finding) {
  if (!finding) return nullptr;
  return object("family"_key = finding->family, "equal_bits"_key = finding->equal_bits, "of"_key = finding->compared,
                "nearest"_key = nearest_json(*finding), "reason"_key = text_or_null(finding->why_not));
}

/// The nodes of the model that a layer stands for, where these are several.
Json segment_json(const ReportContext& context, std::size_t layer) {
  if (!context.recorded || layer >= context.recorded->segments.size()) return nullptr;
  const SegmentParts& parts = context.recorded->segments[layer];
  if (parts.nodes.empty()) return nullptr;
  return object("nodes"_key = parts.nodes, "from"_key = parts.from);
}

Json recorded_json(const std::optional<RecordedLayers>& recorded) {
  if (!recorded) return nullptr;
  Json matched = Json::array();
  for (const MatchedName& one : recorded->matched)
    matched.push_back(object("layer"_key = one.layer, "record"_key = one.record, "by"_key = one.by));
  return object("layers"_key = recorded->recorded, "nodes"_key = recorded->nodes, "inside"_key = recorded->inside,
                "matched"_key = std::move(matched), "copies"_key = recorded->copies,
                "unplaced"_key = recorded->unplaced, "outputs_left_out"_key = recorded->outputs_left_out);
}

Json to_json(const LayerSummary& layer, const ReportContext& context, const Breakdown* breakdown) {
  return object("index"_key = layer.index, "name"_key = layer.name, "op"_key = layer.op, "fan_in"_key = layer.fan_in,
                "outputs"_key = layer.outputs, "compared"_key = layer.compared, "checked"_key = layer.checked,
                "gamma_n"_key = layer.gamma_n, "kappa"_key = to_json(layer.kappa), "ambiguous"_key = layer.ambiguous,
                "nearest_reading"_key = to_json(layer.nearest_reading), "kernel"_key = kernel_json(layer.kernel),
                "kernel_search"_key = kernel_search_json(layer.kernel),
                "reading"_key = layer.reading ? Json(name_of(*layer.reading)) : Json(),
                "differing"_key = layer.differing, "non_finite"_key = layer.non_finite,
                "void"_key = to_json(layer.first_void), "explained_by"_key = text_or_null(layer.explained_by),
                "local"_key = to_json(layer.local), "accumulated"_key = to_json(layer.accumulated),
                "attribution"_key = attribution_json(layer.index, breakdown), "record"_key = to_json(layer.record),
                "segment"_key = segment_json(context, layer.index), "status"_key = name_of(layer.status));
}

Json to_json(const std::vector<NotByRows>& all) {
  Json list = Json::array();
  for (const NotByRows& one : all)
    list.push_back(
        object("question"_key = name_of(one.question), "obstacle"_key = one.obstacle, "seconds"_key = one.seconds));
  return list;
}

Json to_json(const std::optional<BoxSummary>& box) {
  if (!box) return nullptr;
  Json ranges = Json::array();
  for (const auto& [lower, upper] : box->ranges) ranges.push_back({lower, upper});
  const BoxBound& bound = box->bound;
  return object("ranges"_key = std::move(ranges), "error"_key = bound.error.value(), "lower"_key = bound.range.lower(),
                "upper"_key = bound.range.upper(), "remainder_share"_key = bound.remainder_share,
                "guarantee"_key = name_of(bound.guarantee), "theorem"_key = "T-77",
                "condition"_key = text_or_null(bound.condition));
}

Json to_json(const std::optional<SignCounts>& signs) {
  if (!signs) return nullptr;
  return object("right"_key = signs->right, "wrong"_key = signs->wrong, "open"_key = signs->open);
}

Json to_json(const OutputSummary& output) {
  Json json = object("name"_key = output.name);
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
  return object("file"_key = c.model_file, "sha256"_key = c.model_sha256, "format"_key = c.model_format,
                "parameters"_key = c.parameters, "nodes"_key = c.nodes);
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
  return object("same"_key = first == nullptr, "first_difference"_key = first ? Json(first->name) : Json(nullptr));
}

Json run_json(const Report& report) {
  const ReportContext& c = report.context;
  Json rungs = Json::object();
  for (const auto& [bits, count] : report.comparison.rungs) rungs[std::to_string(bits)] = count;
  return object("backend"_key = backend_of(c.provenance), "device"_key = c.provenance.device,
                "gemm"_key = text_or_null(gemm_of(c.provenance)), "arithmetic"_key = Json::parse(to_json(c.arithmetic)),
                "order"_key = to_string(c.arithmetic.order),
                "batch"_key = c.provenance.batch > 0 ? Json(c.provenance.batch) : Json(nullptr),
                "threshold"_key = report.comparison.threshold, "assumptions"_key = report.comparison.assumptions,
                "not_by_rows"_key = to_json(report.comparison.not_by_rows),
                "reference"_key = object("rungs"_key = rungs, "max_bits"_key = report.comparison.max_bits,
                                         "undecided"_key = report.comparison.reference_undecided),
                "replay"_key = replay_json(report.comparison),
                "observer_effect"_key = name_of(c.provenance.observer_effect), "interrupted"_key = c.interrupted,
                "bounds_left_out"_key = c.bounds_left_out, "recorded"_key = recorded_json(c.recorded));
}

Json to_json(const std::vector<OpenQuestion>& questions) {
  Json list = Json::array();
  for (const OpenQuestion& open : questions)
    list.push_back(object("question"_key = name_of(open.question), "values"_key = open.values, "of"_key = open.of,
                          "layer"_key = text_or_null(open.layer), "reason"_key = text_or_null(open.why)));
  return list;
}

Json closest_json(const std::optional<ClosestApproach>& closest) {
  if (!closest) return nullptr;
  return object("layer"_key = closest->layer, "scope"_key = name_of(closest->scope),
                "bound"_key = name_of(closest->bound), "utilisation"_key = closest->utilisation);
}

}  // namespace

Json fields_of(const Report& report) {
  const ReportContext& c = report.context;
  Json layers = Json::array();
  const Breakdown* breakdown = first_breakdown(report.comparison);
  for (const LayerSummary& layer : report.comparison.layers) layers.push_back(to_json(layer, c, breakdown));
  Json outputs = Json::array();
  for (const OutputSummary& output : report.comparison.outputs) outputs.push_back(to_json(output));
  return object("schema"_key = "driftbound/report/1", "version"_key = DRIFTBOUND_VERSION, "date"_key = c.date,
                "seconds"_key = c.seconds, "command"_key = c.command, "model"_key = model_json(c),
                "inputs"_key = inputs_json(c, report.comparison.samples), "run"_key = run_json(report),
                "layers"_key = layers, "end_to_end"_key = object("outputs"_key = outputs),
                "recording"_key = to_json(report.comparison.run), "verdict"_key = name_of(report.comparison.verdict),
                "open_questions"_key = to_json(report.comparison.open_questions),
                "closest"_key = closest_json(report.comparison.closest));
}

}  // namespace driftbound::analysis
