#include "analysis/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/judge.hpp"
#include "analysis/judge_records.hpp"
#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference_file.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/recorded_graph.hpp"

namespace driftbound::cli {
namespace {

struct ReportSettings {
  std::string command;
  std::string model, trace, functions, save_trace, save_reference;
  Outputs outputs;
  std::string fail_on = "violation";
  InputOptions inputs;
  RunSettings run;
  std::vector<std::string> scalars, bounds;
  std::string memory;  ///< empty: half of what is free
  std::string box;
  std::vector<std::string> required;
  double threshold = 0.5;
  double failure_probability = 1e-9;
  int max_precision = 4096;
  std::int64_t audit = 0;  ///< elements drawn of every result of a recording; 0: all are judged
  bool explain = false;
  bool explain_kernels = false, no_explain_kernels = false;  ///< neither: where it is cheap

  std::vector<std::string> files() const { return outputs.files({save_trace, save_reference}); }
};

analysis::FailOn fail_on(const std::string& name) {
  if (name == "approach") return analysis::FailOn::approach;
  if (name == "never") return analysis::FailOn::never;
  return analysis::FailOn::violation;
}

/// Throws:    InvalidArgument
std::vector<BoundRequest> bounds_to_compute(const std::vector<std::string>& names) {
  std::vector<BoundRequest> requests;
  for (const std::string& name : names) {
    const std::optional<BoundRequest> request = bound_request(name);
    if (!request) {
      std::vector<std::string_view> known;
      for (const BoundRequest& one : every_bound_request()) known.push_back(name_of(one));
      throw InvalidArgument(
          fmt::format("--bounds: there is no bound '{}'; choose among: {}", name, fmt::join(known, ", ")));
    }
    requests.push_back(*request);
  }
  return requests;
}

analysis::ExitRules exit_rules(const ReportSettings& settings) {
  analysis::ExitRules rules{fail_on(settings.fail_on), {}};
  for (const std::string& name : settings.required)
    rules.required.push_back(name == name_of(Question::any_run) ? Question::any_run : Question::this_run);
  return rules;
}

/// What of the model is recorded: all of it in runs of our own. These are evaluated as they are judged, unless some of
/// their rows are to be recorded, or the run is to be written.
struct ObtainedRun {
  RecordedRunOfModel recorded;
  std::optional<RunOnDemand> on_demand;

  const Graph& graph() const { return recorded.graph; }
  const Trace& trace() const { return on_demand ? on_demand->about() : recorded.trace; }
};

ObtainedRun obtain_run(const ReportSettings& settings, const LoadedModel& model) {
  ObtainedRun run;
  if (!settings.trace.empty()) {
    run.recorded = read_recorded(model.graph, model.sha256, settings.trace, model.inputs.value_or(Inputs()));
    require_finite_inputs(model.graph, run.recorded.trace.inputs, settings.trace);
    if (!settings.functions.empty())
      run.recorded.trace.arithmetic.functions = function_library(settings.functions).functions;
    return run;
  }
  if (settings.run.rows.empty() && settings.save_trace.empty()) {
    run.on_demand.emplace(model, settings.inputs, settings.run);
  } else {
    run.recorded.trace = run_model(model, settings.inputs, settings.run, settings.outputs.quiet);
  }
  run.recorded.graph = model.graph;
  run.recorded.nodes = model.graph.nodes.size();
  return run;
}

analysis::JudgeOptions judge_options(const ReportSettings& settings, analysis::Progress& progress) {
  analysis::JudgeOptions options;
  options.precision.max_bits = settings.max_precision;
  options.precision.threads = settings.run.thread_count();
  options.bounds = bounds_to_compute(settings.bounds);
  options.threshold = settings.threshold;
  options.failure_probability = settings.failure_probability;
  options.kernel_searches = settings.explain_kernels      ? analysis::KernelSearches::all
                            : settings.no_explain_kernels ? analysis::KernelSearches::none
                                                          : analysis::KernelSearches::cheap;
  options.progress = shown_by(progress);
  return options;
}

analysis::Judgement judge_run(const ReportSettings& settings, ObtainedRun& run,
                              const std::vector<analysis::Scalar>& scalars, ReferenceRecorder* recorder) {
  analysis::Progress progress("judging", !settings.outputs.quiet);
  analysis::JudgeOptions options = judge_options(settings, progress);
  options.scalars = scalars;
  const bool is_our_run = settings.trace.empty();  // whose order is declared
  if (is_our_run && !settings.explain_kernels) options.kernel_searches = analysis::KernelSearches::none;
  if (!settings.box.empty()) options.box = parse_domain(settings.box, "--box");
  options.trace_is_declared_run = settings.trace.empty() && run.trace().provenance.backend == "cpu";
  options.memory = memory_for(settings.memory);
  if (recorder != nullptr)
    options.keep_block = [&](const Reference& reference, const Bounds&, std::int64_t, std::int64_t samples) {
      recorder->add(reference, samples);
    };
  if (!run.on_demand) return analysis::judge(run.graph(), run.trace(), options);
  const auto part = [&](std::int64_t first, std::int64_t count) { return run.on_demand->part(first, count); };
  return analysis::judge(run.graph(), {&run.trace(), part, run.on_demand->at_once()}, options);
}

/// "float64, the model takes float32" where that holds other numbers than those given, else empty.
std::string rounded_inputs(const Graph& graph, const Trace& trace) {
  for (const auto& [name, used] : used_inputs(graph, trace).tensors) {
    const StoredTensor& given = trace.inputs.at(name);
    if (used.type() != given.type() && used.to_double().values != given.to_double().values)
      return fmt::format("{}, the model takes {}", name_of(given.type()), name_of(used.type()));
  }
  return "";
}

/// The formats in which the run stores results: "fp32", "fp16 and fp32, as the model declares them".
std::string formats_of_results(const Graph& graph, const ArithmeticModel& arithmetic) {
  if (!arithmetic.stores_declared_types) return std::string(format(arithmetic.output).name);
  std::set<std::string_view> names;
  for (const Node& node : graph.nodes) {
    const ElementType type = graph.value(node.output).type;
    if (is_float(type)) names.insert(format(stored_format(arithmetic, type)).name);
  }
  return fmt::format("{}, as the model declares them", fmt::join(names, " and "));
}

/// Notes a result that the run stores otherwise than the model declares it: in a wider format, or in a narrow one that
/// is another.
void note_other_storage(const Graph& graph, const ArithmeticModel& arithmetic, analysis::ReportContext& context) {
  const bool narrows = !holds_all_of(format(arithmetic.output), format(arithmetic.accumulator));
  for (const Node& node : graph.nodes) {
    const ElementType declared = graph.value(node.output).type;
    const std::optional<FormatId> own = float_format(declared);
    const FormatId stored = stored_format(arithmetic, declared);
    if (!own || *own == stored || (!narrows && !(format(*own).precision < format(stored).precision))) continue;
    context.declared = std::string(name_of(declared));
    context.stored = std::string(format(stored).name);
    return;
  }
}

void describe_inputs(analysis::ReportContext& context, const ReportSettings& settings, const Trace& trace) {
  context.inputs_sha256 = hash_inputs(trace.inputs);
  if (!settings.trace.empty()) {
    context.inputs_file = settings.trace;
  } else if (!settings.inputs.file.empty()) {
    context.inputs_file = settings.inputs.file;
  } else {
    context.inputs_generator = settings.inputs.generator;
    context.seed = settings.inputs.seed;
    context.domain = settings.inputs.domain;
  }
}

/// What a trace records, where the model's own names and number of layers do not say it.
std::optional<analysis::RecordedLayers> describe_layers(const RecordedRunOfModel& run) {
  const std::size_t recorded = run.graph.nodes.size();
  if (recorded == run.nodes && run.matched.empty() && run.copies.empty() && run.unplaced.empty()) return std::nullopt;
  return analysis::RecordedLayers{recorded,    run.nodes,  run.inside,  run.segments, run.outputs_left_out,
                                  run.matched, run.copies, run.unplaced};
}

analysis::ReportContext describe_run(const ReportSettings& settings, const LoadedModel& model, const ObtainedRun& run) {
  const Graph& graph = model.graph;
  const Trace& trace = run.trace();
  analysis::ReportContext context = {.command = settings.command,
                                     .date = analysis::now_utc(),
                                     .model_file = settings.model,
                                     .model_sha256 = trace.model_sha256,
                                     .model_format = graph.format,
                                     .parameters = graph.parameter_count(),
                                     .nodes = static_cast<std::int64_t>(graph.nodes.size()),
                                     .provenance = trace.provenance,
                                     .arithmetic = trace.arithmetic,
                                     .results = formats_of_results(graph, trace.arithmetic),
                                     .rounded_inputs = rounded_inputs(graph, trace),
                                     .requested_samples = trace.samples};
  note_other_storage(graph, trace.arithmetic, context);
  context.recorded = describe_layers(run.recorded);
  describe_inputs(context, settings, trace);
  return context;
}

/// What a recorded run says itself, and a file of inputs.
void check_sources(const CLI::App& app, const ReportSettings& settings) {
  require_without(app, "--trace", {"INPUTS", "--inputs", "--samples", "--seed", "--domain", "--shape"},
                  "a trace carries its inputs; leave one of the two out");
  require_without(app, "--trace", {"--rows"}, "a trace has the rows that were recorded; leave one of the two out");
  require_without(app, "--trace",
                  {"--arithmetic", "--order", "--gemm", "--algorithm", "--backend", "--device", "--block",
                   "--promotion", "--round-parts", "--batch"},
                  "a trace says how it was computed (its metadata 'arithmetic' and 'provenance', "
                  "docs/file-formats.md); leave one of the two out");
  settings.inputs.check(app);
}

/// A recording says what was computed, and has no outputs.
void check_recording(const CLI::App& app) {
  for (const char* option : {"INPUTS",       "--inputs",      "--samples",        "--domain",    "--shape",  "--rows",
                             "--arithmetic", "--order",       "--gemm",           "--backend",   "--device", "--block",
                             "--promotion",  "--round-parts", "--batch",          "--algorithm", "--store",  "--trace",
                             "--functions",  "--box",         "--save-reference", "--save-trace"})
    if (app.count(option) > 0)
      throw InvalidArgument(
          fmt::format("report: {} says nothing of a run that was recorded op by op; leave it out "
                      "(docs/file-formats.md)",
                      option));
}

/// Prints and writes the report. `write_more`: other files that belong to it.
int publish(const ReportSettings& settings, analysis::Report report, std::chrono::steady_clock::time_point start,
            const std::function<void()>& write_more) {
  report.context.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const analysis::Document document = analysis::document_of(report, exit_rules(settings));
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, settings.explain}, write_more);
  return report.context.interrupted ? exit_interrupted : document.exit_status;
}

/// Throws:    InvalidArgument
void check_numbers(const ReportSettings& settings) {
  if (!(settings.threshold >= 0.0)) throw InvalidArgument("--threshold: not a number");
  analysis::check_failure_probability(settings.failure_probability);
}

/// The network that a recording is, where all elements are judged.
RecordChain chain_of(const RecordedRun& run, const ReportSettings& settings, std::uint64_t memory) {
  if (settings.audit == 0) return chain_records(run, numbers_within(memory));
  RecordChain none;
  none.why_not = "--audit draws elements, and errors from the input on need all of them";
  return none;
}

/// Throws:    InvalidArgument
analysis::Scalar scalar_of(const RecordChain& chain, const std::string& text) {
  if (!chain.why_not.empty())
    throw InvalidArgument("--scalar asks for errors from the input on, which this recording does not give: " +
                          chain.why_not);
  return analysis::parse_scalar(chain.graph, text);
}

/// Judges a run that was recorded op by op, without a model.
int report_on_recording(const ReportSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  settings.outputs.check({});
  require_distinct({settings.model}, settings.files());
  check_numbers(settings);
  const RecordedRun run(settings.model);
  const std::uint64_t memory = memory_for(settings.memory);
  const RecordChain chain = chain_of(run, settings, memory);
  std::vector<analysis::Scalar> scalars;
  for (const std::string& text : settings.scalars) scalars.push_back(scalar_of(chain, text));
  analysis::Progress progress("judging", !settings.outputs.quiet);
  analysis::JudgeOptions options = judge_options(settings, progress);
  analysis::Judgement judgement = analysis::judge_records(run, options, {settings.audit, settings.inputs.seed});
  options.memory = memory;
  options.scalars = scalars;
  options.progress = {};
  if (!judgement.interrupted) analysis::judge_from_input(run, chain, options, judgement);
  analysis::ReportContext context = {.command = settings.command,
                                     .date = analysis::now_utc(),
                                     .model_file = settings.model,
                                     .model_sha256 = sha256_of_file(settings.model),
                                     .model_format = "recorded ops (trace version 2)",
                                     .nodes = static_cast<std::int64_t>(run.records().size()),
                                     .inputs_file = settings.model,
                                     .provenance = run.provenance(),
                                     .arithmetic = judgement.comparison.run->arithmetics.empty()
                                                       ? ArithmeticModel()
                                                       : judgement.comparison.run->arithmetics.front(),
                                     .interrupted = judgement.interrupted,
                                     .requested_samples = 1};
  for (const BoundRequest& request : judgement.left_out) context.bounds_left_out.emplace_back(name_of(request));
  context.memory_needed = judgement.memory_needed;
  return publish(settings, {std::move(context), std::move(judgement.comparison)}, start, [] {});
}

int run_report(const ReportSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  settings.outputs.check({settings.save_trace, settings.save_reference});
  if (settings.trace.empty() && !settings.functions.empty())
    throw InvalidArgument("report: --functions is for a recorded run (--trace); our own functions are known");
  settings.run.check();
  require_distinct({settings.model, settings.trace, settings.inputs.file}, settings.files());
  require_tensor_file(settings.save_trace, "--save-trace");
  require_tensor_file(settings.save_reference, "--save-reference");
  check_numbers(settings);
  if (!settings.box.empty()) parse_domain(settings.box, "--box");
  bounds_to_compute(settings.bounds);
  if (!settings.memory.empty()) parse_bytes(settings.memory, "--memory");
  const LoadedModel model = load_for_run(settings.model, &settings.inputs, settings.trace);
  require_distinct(model.data_files, settings.files());
  for (const std::string& text : settings.scalars) analysis::parse_scalar(model.graph, text);

  ObtainedRun run = obtain_run(settings, model);
  const Graph& graph = run.graph();
  std::vector<analysis::Scalar> scalars;
  for (const std::string& text : settings.scalars) scalars.push_back(analysis::parse_scalar(graph, text));
  if (!settings.save_trace.empty()) write_trace(run.trace(), target_of(settings.save_trace));
  ReferenceRecorder recorder(graph, batch_layout(graph));
  analysis::Judgement judgement =
      judge_run(settings, run, scalars, settings.save_reference.empty() ? nullptr : &recorder);

  analysis::Report result{describe_run(settings, model, run), std::move(judgement.comparison)};
  result.context.interrupted = judgement.interrupted;
  result.context.left_out = model.left_out;
  for (const BoundRequest& request : judgement.left_out) result.context.bounds_left_out.emplace_back(name_of(request));
  result.context.memory_needed = judgement.memory_needed;
  return publish(settings, std::move(result), start, [&] {
    if (!settings.save_reference.empty()) recorder.write(target_of(settings.save_reference), run.trace().model_sha256);
  });
}

Verb::Run add_report(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<ReportSettings>();
  settings->command = command_line;
  add_model(app, settings->model);
  settings->inputs.add_to(app);
  settings->run.add_to(app);
  app.add_option("--trace", settings->trace, "Judge this recorded run instead of running the model");
  app.add_option("--functions", settings->functions,
                 "Library whose functions the recorded run called, in place of what it says (inspect --functions)");
  app.add_option("--scalar", settings->scalars, "Number of interest: OUTPUT[I] or OUTPUT[I]-OUTPUT[J] (repeatable)")
      ->allow_extra_args(false);
  app.add_option(
      "--box", settings->box,
      "Bound scalars and single outputs for every point of a box too: lo:hi, or lo:hi,lo:hi,… one an element");
  app.add_option(
      "--memory", settings->memory,
      "Memory for bounds from end to end, 800M or 12G; beyond it they are left out (default: half of what is "
      "free)");
  app.add_option("--bounds", settings->bounds, "Bounds to compute, by name, comma-separated (default: all)")
      ->delimiter(',');
  app.add_option("--audit", settings->audit,
                 "Of a run recorded op by op: judge so many elements of every result, drawn at random (default: all)")
      ->check(CLI::PositiveNumber);
  add_option(app, "--max-precision", settings->max_precision, "Limit of the reference's precision in bits",
             CLI::Range(64, 1 << 20));
  app.add_option("--failure-probability", settings->failure_probability,
                 "How likely it may be that a probabilistic bound is exceeded")
      ->capture_default_str();
  add_option(app, "--threshold", settings->threshold, "Share of a bound from which on it counts as approached",
             CLI::Range(0.0, 1.0));
  add_option(app, "--fail-on", settings->fail_on, "What makes the exit status non-zero",
             CLI::IsMember({"violation", "approach", "never"}));
  app.add_option("--require", settings->required,
                 "Questions about errors from the input on that may not stay open, comma-separated")
      ->delimiter(',')
      ->check(CLI::IsMember({"this-run", "any-run"}));
  settings->outputs.add_json_to(app,
                                "Write the report as JSON to this file (-: standard output, instead of the table)");
  settings->outputs.add_others_to(app);
  app.add_option("--save-reference", settings->save_reference,
                 "Write the certified values of every layer (.safetensors)");
  app.add_option("--save-trace", settings->save_trace, "Write the run as a trace (.safetensors)");
  app.add_flag("--explain", settings->explain, "Say what every column means");
  CLI::Option* const all =
      app.add_flag("--explain-kernels", settings->explain_kernels,
                   "Search the kernel that gives the bits of each product (default: where it is cheap)");
  app.add_flag("--no-explain-kernels", settings->no_explain_kernels, "Search no kernels")->excludes(all);
  settings->outputs.add_quiet_to(app);
  return [settings, &app] {
    if (is_recorded_run(settings->model)) {
      check_recording(app);
      return report_on_recording(*settings);
    }
    if (app.count("--audit") > 0)
      throw InvalidArgument("report: --audit is for a run that was recorded op by op (docs/file-formats.md)");
    check_sources(app, *settings);
    return run_report(*settings);
  };
}

}  // namespace

Verb report() {
  return {"report", "Measure the rounding error of every layer and compare it with the bounds", add_report};
}

}  // namespace driftbound::cli
