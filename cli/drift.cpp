#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/drift_report.hpp"
#include "analysis/drift_tolerances.hpp"
#include "analysis/leak.hpp"
#include "analysis/promotion.hpp"
#include "analysis/scalar.hpp"
#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/recorded_graph.hpp"

namespace driftbound::cli {
namespace {

using Tolerances = std::vector<analysis::OutputTolerance>;

struct DriftSettings {
  std::string command;
  std::vector<std::string> files;
  InputOptions inputs;
  RunSettings run;
  std::vector<std::string> orders, arithmetics, backends;
  std::vector<std::int64_t> batches;
  std::vector<std::string> promote;  ///< layers to compute in float64
  std::string scalar;        ///< the number whose error is measured then; empty: the first element of the first output
  std::vector<int> threads;  ///< of runs to make; the first is also that of judging
  std::vector<std::string> tolerances;  ///< format and file; empty: none are written
  Outputs outputs;
  std::string memory;  ///< empty: half of what is free
  double failure_probability = 1e-9;
  int max_precision = 4096;
  bool flips = false, leak = false;
  std::int64_t audit = 0, top = analysis::DriftOptions().top;

  bool makes_runs() const {
    return !orders.empty() || !arithmetics.empty() || !batches.empty() || !backends.empty() || !promote.empty() ||
           threads.size() > 1;
  }
  bool is_of_recordings() const { return !files.empty() && is_recorded_run(files.front()); }
};

/// Throws:    InvalidArgument
void check(const DriftSettings& settings) {
  const std::vector<std::string>& files = settings.files;
  analysis::check_failure_probability(settings.failure_probability);
  if (settings.is_of_recordings()) {
    if (settings.leak)
      throw InvalidArgument(
          "drift: --leak runs a model; of another program record the same batch twice, with other rows "
          "beside the row in question, and compare both (docs/drift.md#leak-test)");
    if (settings.makes_runs())
      throw InvalidArgument(
          "drift: --promote, --orders, --arithmetics, --batches, --backends and several --threads make runs of a "
          "model; "
          "recordings "
          "are compared as they are");
    if (files.size() < 2)
      throw InvalidArgument("drift: give two recorded runs, or more: drift A.safetensors B.safetensors");
    for (const std::string& file : files)
      if (!is_recorded_run(file))
        throw InvalidArgument("drift: " + file +
                              " is no run that was recorded op by op (trace version 2, docs/file-formats.md)");
    return;
  }
  if (settings.audit > 0)
    throw InvalidArgument("drift: --audit is for runs that were recorded op by op (docs/file-formats.md)");
  if (settings.leak) {
    if (settings.makes_runs())
      throw InvalidArgument(
          "drift: --leak makes runs of its own; leave out --orders, --arithmetics, --batches, "
          "--backends, --promote and several --threads");
    if (files.size() > 2) throw InvalidArgument("drift: --leak takes the model and at most one file of inputs");
    return;
  }
  if (settings.makes_runs() && files.size() > 2)
    throw InvalidArgument("drift: give the model and at most one file of inputs for runs that are made here");
  if (!settings.makes_runs() && files.size() < 3)
    throw InvalidArgument(
        "drift: give two recorded runs (drift A.safetensors B.safetensors), a model and two traces of it (drift MODEL "
        "A.safetensors B.safetensors), or a model and --orders, --arithmetics, --batches, --backends or several "
        "--threads");
}

analysis::DriftOptions drift_options(const DriftSettings& settings) {
  analysis::DriftOptions options;
  options.judge.precision.max_bits = settings.max_precision;
  options.judge.precision.threads = thread_count(settings.threads.empty() ? 0 : settings.threads.front());
  options.judge.failure_probability = settings.failure_probability;
  for (const BoundKind kind :
       {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic, BoundKind::running,
        BoundKind::order_aware, BoundKind::adjoint_any_order, BoundKind::adjoint_statistical})
    options.judge.bounds.emplace_back(kind);
  if (!settings.tolerances.empty()) options.judge.bounds.emplace_back(BoundKind::adjoint_probabilistic);
  options.audit = {settings.audit, settings.inputs.seed};
  options.top = settings.top;
  options.bounds_outputs = settings.flips || !settings.tolerances.empty();
  options.judge.memory = memory_for(settings.memory);
  options.most_numbers = numbers_within(options.judge.memory);
  return options;
}

analysis::JudgedRun judge_alone(const RecordedRun& run, const std::string& file, const DriftSettings& settings,
                                analysis::DriftOptions options) {
  analysis::Progress progress("judging " + file, !settings.outputs.quiet);
  options.judge.progress = shown_by(progress);
  return analysis::judge_run_alone(run, options);
}

/// Compares recordings op by op. Returns false where the work was interrupted.
bool compare_recordings(const DriftSettings& settings, const analysis::DriftOptions& options,
                        analysis::DriftReport& report, Tolerances& tolerances) {
  const auto describe = [&](const std::string& file, const RecordedRun& run) {
    report.runs.push_back({file, sha256_of_file(file), run.provenance(),
                           static_cast<std::int64_t>(run.records().size()), run.problems(), std::nullopt, std::nullopt,
                           std::nullopt});
  };
  const RecordedRun first(settings.files.front());
  const analysis::JudgedRun alone = judge_alone(first, settings.files.front(), settings, options);
  describe(settings.files.front(), first);
  for (std::size_t i = 1; i < settings.files.size() && !alone.judgement.interrupted; ++i) {
    const RecordedRun other(settings.files[i]);
    const analysis::JudgedRun judged = judge_alone(other, settings.files[i], settings, options);
    if (judged.judgement.interrupted) return false;
    report.drifts.push_back(analysis::compare_runs(alone, judged, options));
    if (i == 1) widen(tolerances, analysis::tolerances_of(alone.judgement.comparison));
    widen(tolerances, analysis::tolerances_of(judged.judgement.comparison));
    describe(settings.files[i], other);
  }
  return !alone.judgement.interrupted;
}

/// A run of the model, and what it is called.
struct NamedTrace {
  std::string name, sha256;
  Graph graph;
  Trace trace;
};

NamedTrace read_named(const LoadedModel& model, const std::string& file) {
  RecordedRunOfModel run = read_recorded(model.graph, model.sha256, file, model.inputs.value_or(Inputs()));
  require_finite_inputs(model.graph, run.trace.inputs, file);
  return {file, sha256_of_file(file), std::move(run.graph), std::move(run.trace)};
}

/// The runs that --orders, --arithmetics, --batches, --backends and --threads ask for: the first of each, and every other one by itself.
std::vector<std::pair<std::string, RunSettings>> asked_runs(const DriftSettings& settings) {
  RunSettings base = settings.run;
  if (!settings.orders.empty()) base.order = settings.orders.front();
  if (!settings.arithmetics.empty()) base.arithmetic = settings.arithmetics.front();
  if (!settings.batches.empty()) base.batch = settings.batches.front();
  if (!settings.backends.empty()) base.backend = settings.backends.front();
  if (!settings.threads.empty()) base.threads = settings.threads.front();
  std::vector<std::pair<std::string, RunSettings>> runs;
  const auto add = [&](const RunSettings& run) {
    std::string name = run.arithmetic.empty() ? "the model's type" : run.arithmetic;
    if (!run.order.empty()) name += ", " + run.order;
    if (run.batch > 0) name += ", batch " + std::to_string(run.batch);
    if (!settings.backends.empty()) name += ", " + run.backend;
    if (settings.threads.size() > 1) name += fmt::format(", {} thread{}", run.threads, run.threads == 1 ? "" : "s");
    runs.emplace_back(name, run);
  };
  add(base);
  const auto add_others = [&](const auto& values, auto RunSettings::*field) {
    for (std::size_t i = 1; i < values.size(); ++i) {
      RunSettings run = base;
      run.*field = values[i];
      add(run);
    }
  };
  add_others(settings.orders, &RunSettings::order);
  add_others(settings.arithmetics, &RunSettings::arithmetic);
  add_others(settings.batches, &RunSettings::batch);
  add_others(settings.backends, &RunSettings::backend);
  add_others(settings.threads, &RunSettings::threads);
  return runs;
}

/// Of the outputs of a run, bit for bit.
std::string fingerprint_of(const NamedTrace& run) {
  std::string all;
  for (const ValueId output : run.graph.outputs)
    if (const auto node = run.graph.producer(output)) all += sha256_of(run.trace.layers[*node].output.bytes());
  return all;
}

/// The layers to promote: those that are named, and for `best` the three most promising ones.
std::vector<std::size_t> nodes_to_promote(const analysis::TracedRun& run, const std::vector<std::string>& asked) {
  constexpr std::size_t most = 3;
  std::vector<std::size_t> nodes;
  for (const std::string& one : asked) {
    if (one != "best") {
      nodes.push_back(analysis::promoted_node(run.graph, one));
      continue;
    }
    const std::vector<std::size_t> best = analysis::most_promising(run);
    nodes.insert(nodes.end(), best.begin(), best.begin() + static_cast<std::ptrdiff_t>(std::min(most, best.size())));
  }
  return nodes;
}

/// Compares traces of a model, or runs of it that are made here. Returns false where the work was interrupted.
bool compare_runs_of_model(DriftSettings settings, const analysis::DriftOptions& options, analysis::DriftReport& report,
                           Tolerances& tolerances) {
  const std::string& file = settings.files.front();
  std::vector<std::function<NamedTrace()>> makers;
  std::optional<LoadedModel> model;
  if (settings.makes_runs()) {
    if (settings.files.size() > 1) settings.inputs.file = settings.files[1];
    model = load_for_run(file, &settings.inputs);
    for (const auto& [name, run] : asked_runs(settings)) {
      run.check();
      makers.push_back([&settings, &model, name = name, run = run] {
        return NamedTrace{name, model->sha256, model->graph,
                          run_model(*model, settings.inputs, run, settings.outputs.quiet)};
      });
    }
    if (makers.size() < 2 && settings.promote.empty())
      throw InvalidArgument("drift: give two orders, arithmetics, batches, backends or numbers of threads, or more");
  } else {
    model = load_for_run(file, nullptr, settings.files[1]);
    for (std::size_t i = 1; i < settings.files.size(); ++i)
      makers.push_back([&, i] { return read_named(*model, settings.files[i]); });
  }
  std::optional<analysis::TracedRun> first;
  std::vector<std::string> fingerprints;
  std::map<std::size_t, double> predictions;  // by run
  if (!settings.promote.empty()) {
    for (const std::string& one : settings.promote)
      if (one != "best") analysis::promoted_node(model->graph, one);
    const std::string& output = model->graph.value(model->graph.outputs.front()).name;
    report.target = analysis::parse_scalar(model->graph, settings.scalar.empty() ? output : settings.scalar).text;
  }
  for (std::size_t i = 0; i < makers.size(); ++i) {
    const std::function<NamedTrace()> make = makers[i];  // more of them are added on the way
    const auto start = std::chrono::steady_clock::now();
    NamedTrace made = make();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    report.runs.push_back({made.name,
                           made.sha256,
                           made.trace.provenance,
                           static_cast<std::int64_t>(made.trace.layers.size()),
                           {},
                           settings.makes_runs() ? std::optional(took.count()) : std::nullopt});
    if (predictions.count(i) != 0) report.runs.back().predicted_rms = predictions[i];
    fingerprints.push_back(fingerprint_of(made));
    analysis::Progress progress("judging " + made.name, !settings.outputs.quiet);
    analysis::DriftOptions judging = options;
    judging.judge.progress = shown_by(progress);
    judging.target = report.target;
    judging.attributes = !first;
    analysis::TracedRun run = analysis::judge_trace_alone(std::move(made.graph), std::move(made.trace), judging);
    if (run.judgement.interrupted) return false;
    widen(tolerances, analysis::tolerances_of(run.judgement.comparison));
    if (first) report.drifts.push_back(analysis::compare_traces(*first, run));
    report.runs.back().rms = run.rms;
    if (first) continue;
    first = std::move(run);
    for (const std::size_t node : nodes_to_promote(*first, settings.promote)) {
      if (node < first->rms_without.size()) predictions[makers.size()] = first->rms_without[node];
      makers.push_back([&, node] {
        const RunSettings base = asked_runs(settings).front().second;
        const auto evaluate = [&](const Graph& graph, const Inputs& inputs) {
          RunOptions how;
          how.batch = base.batch_for(first->trace.samples);
          how.threads = base.thread_count();
          return base.evaluator_for(graph).run(graph, inputs, how);
        };
        Trace trace = analysis::promoted_run(first->graph, first->trace, node, evaluate);
        trace.model_sha256 = model->sha256;
        return NamedTrace{fmt::format("'{}' in float64", first->graph.nodes[node].name), model->sha256, first->graph,
                          std::move(trace)};
      });
    }
  }
  report.classes = analysis::classes_of(fingerprints);
  return true;
}

/// Whether rows of a batch answer to each other, in the run of a model.
analysis::LeakReport find_leaks(DriftSettings settings) {
  if (settings.files.size() > 1) settings.inputs.file = settings.files[1];
  const LoadedModel model = load_for_run(settings.files.front(), &settings.inputs);
  const Inputs inputs = model.inputs ? *model.inputs : settings.inputs.load(model.graph);
  if (!settings.threads.empty()) settings.run.threads = settings.threads.front();
  settings.run.check();
  const Evaluator evaluator = settings.run.evaluator_for(model.graph);
  RunOptions how;
  how.threads = settings.run.thread_count();
  how.check_observer_effect = false;
  analysis::LeakReport report = analysis::test_leaks(
      model.graph, inputs, [&](const Inputs& given) { return evaluator.run(model.graph, given, how); });
  report.model = settings.files.front();
  return report;
}

int run_drift(const DriftSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  const std::string tolerance_file = settings.tolerances.empty() ? "" : settings.tolerances.back();
  settings.outputs.check({tolerance_file});
  require_distinct(settings.files, settings.outputs.files({tolerance_file}));
  check(settings);
  std::optional<analysis::ToleranceFile> tolerance_kind;
  if (!settings.tolerances.empty()) tolerance_kind = analysis::tolerance_file_of(settings.tolerances.front());
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  if (settings.leak) {
    analysis::LeakReport leaks = find_leaks(settings);
    leaks.command = settings.command;
    leaks.date = now_utc();
    leaks.seconds = seconds();
    const analysis::Document found = analysis::document_of(leaks);
    settings.outputs.publish(found, {isatty(STDOUT_FILENO) == 1, false});
    return found.exit_status;
  }
  const analysis::DriftOptions options = drift_options(settings);
  analysis::DriftReport report;
  report.command = settings.command;
  report.date = now_utc();
  Tolerances tolerances;
  const bool is_whole = settings.is_of_recordings() ? compare_recordings(settings, options, report, tolerances)
                                                    : compare_runs_of_model(settings, options, report, tolerances);
  if (report.drifts.empty()) throw Interrupted("drift was interrupted");
  report.seconds = seconds();
  const analysis::Document document = analysis::document_of(report);
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, false}, [&] {
    if (!tolerance_kind) return;
    const bool reads_others =
        std::any_of(report.drifts.begin(), report.drifts.end(), [](const analysis::RunsDrift& drift) {
          return drift.verdict == analysis::DriftVerdict::bug || !drift.sources.empty();
        });
    if (reads_others)
      throw Unsupported(
          "drift: --tolerances: a run has a bug or the runs read other numbers from outside, so that nothing is "
          "written to " +
          tolerance_file);
    write_whole(tolerance_file, text_of(tolerances, *tolerance_kind));
  });
  return is_whole ? document.exit_status : exit_interrupted;
}

Verb::Run add_drift(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<DriftSettings>();
  settings->command = command_line;
  app.add_option(
         "RUNS", settings->files,
         "Runs recorded op by op (.safetensors); or a model and traces of it; or a model and inputs. Each run is "
         "compared with the first one")
      ->required();
  app.add_option("--orders", settings->orders, "Run the model with its sums in these orders, separated by spaces");
  app.add_option("--arithmetics", settings->arithmetics, "Run the model in these arithmetics");
  app.add_option("--batches", settings->batches, "Run the model with so many samples at a time")->check(counts());
  app.add_option("--backends", settings->backends, "Run the model on these backends (cpu, cuda)")
      ->check(CLI::IsMember({"auto", "cpu", "sim", "cuda"}));
  app.add_option(
         "--tolerances", settings->tolerances,
         "Write what two honest runs may differ by in each output, for torch, numpy, polygraphy or as json, to a "
         "file: --tolerances torch FILE")
      ->expected(2)
      ->type_name("KIND FILE");
  add_option(app, "--samples", settings->inputs.samples, "Number of samples to generate", counts());
  app.add_option("--domain", settings->inputs.domain, "Domain of generated samples")->capture_default_str();
  app.add_option("--threads", settings->threads,
                 "Threads (0: as many as cores); several numbers: run the model with each of them")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--memory", settings->memory,
                 "Memory for judging from the input on, 800M or 12G (default: half of what is free)");
  app.add_option("--audit", settings->audit, "Judge so many elements of every result, drawn at random (default: all)")
      ->check(CLI::PositiveNumber);
  app.add_option("--promote", settings->promote,
                 "Run the model with one layer in float64, for each of these (LAYER:fp64, or best: the three most "
                 "promising), and compare the error of --scalar, predicted and measured");
  app.add_option(
      "--scalar", settings->scalar,
      "The number whose error --promote measures: NAME[INDEX], or a difference (default: the first element of "
      "the first output)");
  app.add_flag(
      "--leak", settings->leak,
      "Run the model with the other rows of a batch permuted, zeros, huge, NaN, infinite and copies: no row may "
      "answer to them");
  app.add_flag("--flips", settings->flips,
               "Bound what any run may have in every output, also where that takes long: which choices no run changes");
  app.add_option("--top", settings->top, "Compare the sets of so many largest numbers of each row of logits")
      ->capture_default_str()
      ->check(counts());
  app.add_option("--seed", settings->inputs.seed, "Of generated samples, and of --audit")->capture_default_str();
  add_option(app, "--max-precision", settings->max_precision, "Limit of the reference's precision in bits",
             CLI::Range(64, 1 << 20));
  app.add_option("--failure-probability", settings->failure_probability,
                 "How likely it may be that an honest run is called suspicious by a probabilistic bound")
      ->capture_default_str();
  settings->outputs.add_json_to(app,
                                "Write the report as JSON to this file (-: standard output, instead of the table)");
  settings->outputs.add_others_to(app);
  settings->outputs.add_quiet_to(app);
  return [settings] { return run_drift(*settings); };
}

}  // namespace

Verb drift() {
  return {"drift", "Compare runs: what differs between them, and whether rounding explains it", add_drift};
}

}  // namespace driftbound::cli
