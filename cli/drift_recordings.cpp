#include <optional>
#include <string>

#include "cli/drift_modes.hpp"
#include "driftbound/trace/recorded_run.hpp"

namespace driftbound::cli {
namespace {

analysis::JudgedRun judge_alone(const RecordedRun& run, const std::string& file, const DriftSettings& settings,
                                analysis::DriftOptions options) {
  analysis::Progress progress("judging " + file, !settings.outputs.quiet);
  options.judge.progress = shown_by(progress);
  return analysis::judge_run_alone(run, options);
}

}  // namespace

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

}  // namespace driftbound::cli
