#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "analysis/drift_report.hpp"
#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

struct DriftSettings {
  std::string command;
  std::vector<std::string> runs;
  Outputs outputs;
  std::string memory;  ///< empty: half of what is free
  double failure_probability = 1e-9;
  int max_precision = 4096, threads = 0;
  std::int64_t audit = 0;
  std::uint64_t seed = 1;
};

/// Throws:    InvalidArgument
void check(const DriftSettings& settings) {
  if (settings.runs.size() < 2)
    throw InvalidArgument("drift: give two recorded runs, or more: drift A.safetensors B.safetensors");
  for (const std::string& file : settings.runs)
    if (!is_recorded_run(file))
      throw InvalidArgument("drift: " + file +
                            " is no run that was recorded op by op (trace version 2, docs/file-formats.md)");
  if (!(settings.failure_probability > 0.0 && settings.failure_probability < 1.0))
    throw InvalidArgument("--failure-probability: give a number between 0 and 1");
}

analysis::DriftOptions drift_options(const DriftSettings& settings) {
  constexpr std::uint64_t bytes_per_number = 512;  // two references and the bounds of a layer, roughly
  analysis::DriftOptions options;
  options.judge.precision.max_bits = settings.max_precision;
  options.judge.precision.threads = thread_count(settings.threads);
  options.judge.failure_probability = settings.failure_probability;
  for (const BoundKind kind : {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic,
                               BoundKind::running, BoundKind::order_aware, BoundKind::adjoint_any_order})
    options.judge.bounds.emplace_back(kind);
  options.audit = {settings.audit, settings.seed};
  const std::uint64_t memory = settings.memory.empty() ? free_memory() / 2 : parse_bytes(settings.memory, "--memory");
  options.judge.memory = memory;
  options.most_numbers = static_cast<std::int64_t>(memory / bytes_per_number);
  return options;
}

analysis::JudgedRun judge_alone(const RecordedRun& run, const std::string& file, const DriftSettings& settings,
                                analysis::DriftOptions options) {
  analysis::Progress progress("judging " + file, !settings.outputs.quiet);
  options.judge.progress = shown_by(progress);
  return analysis::judge_run_alone(run, options);
}

int run_drift(const DriftSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  settings.outputs.check();
  require_distinct(settings.runs, settings.outputs.files());
  check(settings);
  const analysis::DriftOptions options = drift_options(settings);
  analysis::DriftReport report;
  report.command = settings.command;
  report.date = now_utc();
  const RecordedRun first(settings.runs.front());
  const analysis::JudgedRun alone = judge_alone(first, settings.runs.front(), settings, options);
  bool is_interrupted = alone.judgement.interrupted;
  const auto describe = [&](const std::string& file, const RecordedRun& run) {
    report.runs.push_back({file, sha256_of_file(file), run.provenance(),
                           static_cast<std::int64_t>(run.records().size()), run.problems()});
  };
  describe(settings.runs.front(), first);
  for (std::size_t i = 1; i < settings.runs.size() && !is_interrupted; ++i) {
    const RecordedRun other(settings.runs[i]);
    const analysis::JudgedRun judged = judge_alone(other, settings.runs[i], settings, options);
    is_interrupted = judged.judgement.interrupted;
    if (is_interrupted) break;
    report.drifts.push_back(analysis::compare_runs(alone, judged, options));
    describe(settings.runs[i], other);
  }
  if (report.drifts.empty()) throw Interrupted("drift was interrupted");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const analysis::Document document = analysis::document_of(report);
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, false});
  return is_interrupted ? exit_interrupted : document.exit_status;
}

Verb::Run add_drift(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<DriftSettings>();
  settings->command = command_line;
  app.add_option("RUNS", settings->runs, "Runs recorded op by op (.safetensors); each is compared with the first one")
      ->required();
  add_option(app, "--threads", settings->threads, "Threads (0: as many as cores)", CLI::NonNegativeNumber);
  app.add_option("--memory", settings->memory,
                 "Memory for judging from the input on, 800M or 12G (default: half of what is free)");
  app.add_option("--audit", settings->audit, "Judge so many elements of every result, drawn at random (default: all)")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", settings->seed, "Of --audit")->capture_default_str();
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
