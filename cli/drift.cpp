#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/drift_modes.hpp"
#include "cli/files.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

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
          "model; recordings are compared as they are");
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
    if (!settings.chosen.empty() || settings.flips || !settings.tolerances.empty())
      throw InvalidArgument(
          "drift: --leak compares rows of the results bit by bit; leave out --chosen, --flips and --tolerances");
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

/// Throws:    FileError, ParseError, InvalidArgument
std::vector<std::int64_t> chosen_in(const std::string& file) {
  const StoredTensor array = read_array(file);
  if (is_float(array.type()) || array.size() == 0)
    throw InvalidArgument("drift: --chosen " + file + ": the classes chosen are integers, one for every row");
  std::vector<std::int64_t> chosen;
  for (const double one : array.to_double().values) chosen.push_back(static_cast<std::int64_t>(one));
  return chosen;
}

analysis::DriftOptions drift_options(const DriftSettings& settings) {
  analysis::DriftOptions options;
  options.judge.precision.max_bits = settings.max_precision;
  options.judge.precision.threads = thread_count(settings.threads.empty() ? 0 : settings.threads.front());
  options.judge.failure_probability = settings.failure_probability;
  for (const BoundKind kind : {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic,
                               BoundKind::running, BoundKind::order_aware, BoundKind::adjoint_any_order,
                               BoundKind::rounded_shadow, BoundKind::adjoint_statistical})
    options.judge.bounds.emplace_back(kind);
  if (!settings.tolerances.empty()) options.judge.bounds.emplace_back(BoundKind::adjoint_probabilistic);
  options.audit = {settings.audit, settings.inputs.seed};
  options.top = settings.top;
  if (!settings.chosen.empty()) options.chosen = chosen_in(settings.chosen);
  options.bounds_outputs = settings.flips || !settings.tolerances.empty();
  options.judge.kernel_searches = settings.explain_kernels ? analysis::KernelSearches::all
                                  : settings.no_explain_kernels || settings.makes_runs()
                                      ? analysis::KernelSearches::none
                                      : analysis::KernelSearches::cheap;
  options.judge.memory = memory_for(settings.memory);
  options.most_numbers = numbers_within(options.judge.memory);
  return options;
}

}  // namespace

bool widen_by(const Graph& graph, const Trace& trace, const analysis::Comparison& judged, const std::string& name,
              const DriftSettings& settings, Tolerances& tolerances, const std::map<std::string, std::string>& names) {
  if (settings.tolerances.empty()) return true;
  Tolerances of_run = analysis::tolerances_of(judged);
  analysis::Progress progress("bounding tensors of " + name, !settings.outputs.quiet);
  analysis::TensorBounds how;
  how.outputs_alone = settings.tolerances_of == "outputs";
  how.failure_probability = settings.failure_probability;
  how.threads = thread_count(settings.threads.empty() ? 0 : settings.threads.front());
  how.progress = shown_by(progress);
  if (!add_tensors(graph, trace, how, of_run)) return false;
  widen(tolerances, of_run, names);
  return true;
}

namespace {

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
    leaks.date = analysis::now_utc();
    leaks.seconds = seconds();
    const analysis::Document found = analysis::document_of(leaks);
    settings.outputs.publish(found, {isatty(STDOUT_FILENO) == 1, false});
    return found.exit_status;
  }
  const analysis::DriftOptions options = drift_options(settings);
  analysis::DriftReport report;
  report.command = settings.command;
  report.date = analysis::now_utc();
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
  app.add_option("--orders", settings->orders, "Run the model with its sums in these orders: sequential,pairwise")
      ->delimiter(',');
  app.add_option("--arithmetics", settings->arithmetics, "Run the model in these arithmetics: fp32,bf16")
      ->delimiter(',');
  app.add_option("--batches,--batch", settings->batches, "Run the model with so many samples at a time: 1,16,256")
      ->delimiter(',')
      ->check(counts());
  app.add_option("--backends", settings->backends, "Run the model on these backends: cpu,sim,cuda")
      ->delimiter(',')
      ->check(CLI::IsMember({"auto", "cpu", "sim", "cuda"}));
  settings->run.device.add_to(app);
  app.add_option(
         "--tolerances", settings->tolerances,
         "Write what two honest runs may differ by in each tensor, for torch, numpy, polygraphy or as json, to a "
         "file: --tolerances torch FILE")
      ->expected(2)
      ->type_name("KIND FILE");
  add_option(app, "--tolerances-of", settings->tolerances_of, "Tensors that --tolerances writes: all, or outputs alone",
             CLI::IsMember({"tensors", "outputs"}));
  add_option(app, "--samples", settings->inputs.samples, "Number of samples to generate", counts());
  app.add_option("--domain", settings->inputs.domain, "Domain of generated samples")->capture_default_str();
  app.add_option("--threads", settings->threads,
                 "Threads (0: as many as cores); several numbers, 1,2: run the model with each of them")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--memory", settings->memory,
                 "Memory for judging from the input on, 800M or 12G (default: half of what is free)");
  app.add_option("--audit", settings->audit, "Judge so many elements of every result, drawn at random (default: all)")
      ->check(CLI::PositiveNumber);
  app.add_option("--promote", settings->promote,
                 "Run the model with one layer computed otherwise, for each of these (LAYER:fp64, LAYER:3xtf32, "
                 "LAYER:compensated, or best: the three most promising in float64), and compare the error of --scalar, "
                 "predicted and measured");
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
  CLI::Option* const all = app.add_flag(
      "--explain-kernels", settings->explain_kernels,
      "Search the kernels that give the bits of all products (default: of recorded runs, where it is cheap)");
  app.add_flag("--no-explain-kernels", settings->no_explain_kernels, "Search no kernels")->excludes(all);
  app.add_option("--top", settings->top, "Compare the sets of so many largest numbers of each row of logits")
      ->capture_default_str()
      ->check(counts());
  app.add_option("--chosen", settings->chosen,
                 "Classes chosen, by row of the first run's logits (.npy of integers): compare their log-probabilities "
                 "(default: "
                 "the first run's choices)")
      ->type_name("FILE.npy");
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
