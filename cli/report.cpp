#include "analysis/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "analysis/judge.hpp"
#include "analysis/progress.hpp"
#include "cli/common.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference_file.hpp"
#include "driftbound/trace/function_libraries.hpp"

namespace driftbound::cli {
namespace {

struct ReportSettings {
  std::string command;
  std::string model, trace, functions, json, html, csv, junit, save_trace, save_reference;
  std::string fail_on = "violation";
  InputOptions inputs;
  RunSettings run;
  std::vector<std::string> scalars, bounds;
  std::string box;
  double threshold = 0.5;
  double failure_probability = 1e-9;
  int max_precision = 4096;
  bool explain = false;
  bool quiet = false;
};

analysis::FailOn fail_on(const std::string& name) {
  if (name == "approach") return analysis::FailOn::approach;
  if (name == "never") return analysis::FailOn::never;
  return analysis::FailOn::violation;
}

Trace obtain_trace(const ReportSettings& settings, const Graph& graph, const std::string& model_sha256) {
  if (!settings.trace.empty()) {
    Trace trace = read_trace(graph, model_sha256, settings.trace);
    require_finite_inputs(graph, trace.inputs, settings.trace);
    if (!settings.functions.empty()) trace.arithmetic.functions = function_library(settings.functions).functions;
    return trace;
  }
  return run_model(graph, model_sha256, settings.inputs, settings.run, settings.quiet);
}

analysis::Judgement judge_trace(const ReportSettings& settings, const Graph& graph, const Trace& trace,
                                const std::vector<analysis::Scalar>& scalars, ReferenceRecorder* recorder) {
  analysis::Progress progress("judging", !settings.quiet);
  analysis::JudgeOptions options;
  options.precision.max_bits = settings.max_precision;
  options.precision.threads = settings.run.thread_count();
  options.scalars = scalars;
  options.bounds = settings.bounds;
  if (!settings.box.empty()) options.box = parse_domain(settings.box, "--box");
  options.threshold = settings.threshold;
  options.failure_probability = settings.failure_probability;
  options.trace_is_declared_run = settings.trace.empty() && trace.provenance.backend == "cpu";
  options.progress = [&](std::int64_t done, std::int64_t all) {
    progress.update(done, all);
    return !interrupted();
  };
  if (recorder != nullptr)
    options.keep_reference = [&](const Reference& reference, std::int64_t, std::int64_t samples) {
      recorder->add(reference, samples);
    };
  return analysis::judge(graph, trace, options);
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

/// Writes every file asked for; "-" as JSON file is standard output. Returns what failed, which keeps no other file from
/// being written.
std::vector<std::string> write_files(const ReportSettings& settings, const analysis::Report& report,
                                     ReferenceRecorder& recorder, const std::string& model_sha256) {
  std::vector<std::string> failures;
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
  };
  const auto write = [&](const std::string& file, std::string (*text_of)(const analysis::Report&)) {
    if (file == "-")
      fmt::print("{}", text_of(report));
    else if (!file.empty())
      attempt([&] { write_whole(file, text_of(report)); });
  };
  if (!settings.save_reference.empty())
    attempt([&] { recorder.write(target_of(settings.save_reference), model_sha256); });
  write(settings.json, analysis::to_json);
  write(settings.html, analysis::to_html);
  write(settings.csv, analysis::to_csv);
  write(settings.junit, analysis::to_junit);
  return failures;
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

analysis::ReportContext describe_run(const ReportSettings& settings, const Graph& graph, const Trace& trace) {
  analysis::ReportContext context;
  context.command = settings.command;
  context.date = now_utc();
  context.model_file = settings.model;
  context.model_sha256 = trace.model_sha256;
  context.model_format = graph.format;
  context.parameters = graph.parameter_count();
  context.nodes = static_cast<std::int64_t>(graph.nodes.size());
  describe_inputs(context, settings, trace);
  context.backend = trace.provenance.backend.empty() ? "unknown" : trace.provenance.backend;
  context.device = trace.provenance.device;
  if (const auto gemm = trace.provenance.details.find("gemm"); gemm != trace.provenance.details.end())
    context.gemm = gemm->second;
  context.arithmetic = trace.arithmetic;
  context.rounded_inputs = rounded_inputs(graph, trace);
  context.batch = trace.provenance.batch;
  context.observer_effect = trace.provenance.observer_effect;
  context.requested_samples = trace.samples;
  return context;
}

/// What a recorded run says itself, and a file of inputs.
void check_sources(const CLI::App& app, const ReportSettings& settings) {
  require_without(app, "--trace", {"INPUTS", "--inputs", "--samples", "--seed", "--domain"},
                  "a trace carries its inputs; leave one of the two out");
  require_without(app, "--trace", {"--rows"}, "a trace has the rows that were recorded; leave one of the two out");
  require_without(app, "--trace", {"--arithmetic", "--order", "--gemm", "--backend", "--batch"},
                  "a trace says how it was computed (its metadata 'arithmetic' and 'provenance', "
                  "docs/file-formats.md); leave one of the two out");
  settings.inputs.check(app);
}

std::vector<std::string> outputs_of(const ReportSettings& settings) {
  return {settings.json, settings.html, settings.csv, settings.junit, settings.save_trace, settings.save_reference};
}

int report(const ReportSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& file : outputs_of(settings))
    if (file != "-") require_writable(file);
  for (const std::string& file :
       {settings.html, settings.csv, settings.junit, settings.save_trace, settings.save_reference})
    if (file == "-") throw InvalidArgument("only --json can be written to standard output ('-')");
  if (settings.trace.empty() && !settings.functions.empty())
    throw InvalidArgument("report: --functions is for a recorded run (--trace); our own functions are known");
  settings.run.check();
  require_distinct({settings.model, settings.trace, settings.inputs.file}, outputs_of(settings));
  require_tensor_file(settings.save_trace, "--save-trace");
  require_tensor_file(settings.save_reference, "--save-reference");
  if (!(settings.threshold >= 0.0)) throw InvalidArgument("--threshold: not a number");
  if (!(settings.failure_probability > 0.0 && settings.failure_probability < 1.0))
    throw InvalidArgument("--failure-probability: give a number between 0 and 1");
  if (!settings.box.empty()) parse_domain(settings.box, "--box");
  const LoadedModel model = load_for_run(settings.model);
  const Graph& graph = model.graph;
  require_distinct(model.data_files, outputs_of(settings));
  std::vector<analysis::Scalar> scalars;
  for (const std::string& text : settings.scalars) scalars.push_back(analysis::parse_scalar(graph, text));

  const Trace trace = obtain_trace(settings, graph, model.sha256);
  if (!settings.save_trace.empty()) write_trace(trace, target_of(settings.save_trace));
  ReferenceRecorder recorder(graph, batch_layout(graph));
  analysis::Judgement judgement =
      judge_trace(settings, graph, trace, scalars, settings.save_reference.empty() ? nullptr : &recorder);

  analysis::Report result{describe_run(settings, graph, trace), std::move(judgement.comparison)};
  result.context.interrupted = judgement.interrupted;
  result.context.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::vector<std::string> failures = write_files(settings, result, recorder, trace.model_sha256);
  if (settings.quiet)
    fmt::print(stderr, "{}\n", analysis::headline(result));
  else if (settings.json != "-")
    fmt::print("{}", analysis::to_text(result, {isatty(STDOUT_FILENO) == 1, settings.explain}));
  if (!failures.empty()) throw FileError(fmt::format("{}", fmt::join(failures, "; ")));
  return judgement.interrupted ? exit_interrupted : analysis::exit_status(result.comparison, fail_on(settings.fail_on));
}

}  // namespace

Verb add_report(CLI::App& program, const std::string& command_line) {
  CLI::App& app =
      *program.add_subcommand("report", "Measure the rounding error of every layer and compare it with the bounds");
  auto settings = std::make_shared<ReportSettings>();
  settings->command = command_line;
  app.add_option("MODEL", settings->model, "Model: .onnx, or a .npz layer dump")->required();
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
  app.add_option("--bounds", settings->bounds,
                 "Bounds to compute, by name, comma-separated (default: all)")
      ->delimiter(',');
  app.add_option("--max-precision", settings->max_precision, "Limit of the reference's precision in bits")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  app.add_option("--failure-probability", settings->failure_probability,
                 "How likely it may be that a probabilistic bound is exceeded")
      ->capture_default_str();
  app.add_option("--threshold", settings->threshold, "Share of a bound from which on it counts as approached")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--fail-on", settings->fail_on, "What makes the exit status non-zero")
      ->check(CLI::IsMember({"violation", "approach", "never"}))
      ->capture_default_str();
  app.add_option("--json", settings->json,
                 "Write the report as JSON to this file (-: standard output, instead of the table)");
  app.add_option("--html", settings->html, "Write the report as one self-contained HTML page");
  app.add_option("--csv", settings->csv, "Write one line per layer, scope and bound");
  app.add_option("--junit", settings->junit, "Write JUnit XML for CI: a test case per layer and output");
  app.add_option("--save-reference", settings->save_reference,
                 "Write the certified values of every layer (.safetensors)");
  app.add_option("--save-trace", settings->save_trace, "Write the run as a trace (.safetensors)");
  app.add_flag("--explain", settings->explain, "Say what every column means");
  app.add_flag("--quiet", settings->quiet, "No table and no progress; the verdict goes to standard error");
  return [settings, &app] {
    check_sources(app, *settings);
    return report(*settings);
  };
}

}  // namespace driftbound::cli
