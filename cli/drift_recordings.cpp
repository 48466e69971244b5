#include <map>
#include <optional>
#include <string>

#include "cli/drift_modes.hpp"
#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/recorded_run.hpp"

namespace driftbound::cli {
namespace {

analysis::JudgedRun judge_alone(const RecordedRun& run, const std::string& file, const DriftSettings& settings,
                                analysis::DriftOptions options) {
  analysis::Progress progress("judging " + file, !settings.outputs.quiet);
  options.judge.progress = shown_by(progress);
  return analysis::judge_run_alone(run, options);
}

bool widen_by_run(const RecordedRun& run, const analysis::JudgedRun& judged, const std::string& file,
                  const DriftSettings& settings, const analysis::DriftOptions& options, Tolerances& tolerances,
                  const std::map<std::string, std::string>& names = {}) {
  if (!judged.arithmetic) widen(tolerances, analysis::tolerances_of(judged.judgement.comparison), names);
  if (settings.tolerances.empty() || !judged.arithmetic) return true;
  const RecordChain chain = chain_records(run, options.most_numbers);
  return widen_by(chain.graph, chain.trace, judged.judgement.comparison, file, settings, tolerances, names);
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
  // Files that have nothing to do with each other are refused before the long work begins.
  std::optional<RunAlignment> of_second = analysis::aligned_runs(first, RecordedRun(settings.files[1]));
  const analysis::JudgedRun alone = judge_alone(first, settings.files.front(), settings, options);
  describe(settings.files.front(), first);
  for (std::size_t i = 1; i < settings.files.size() && !alone.judgement.interrupted; ++i) {
    const RecordedRun other(settings.files[i]);
    RunAlignment alignment = i == 1 ? *std::move(of_second) : analysis::aligned_runs(first, other);
    const analysis::JudgedRun judged = judge_alone(other, settings.files[i], settings, options);
    if (judged.judgement.interrupted) return false;
    report.drifts.push_back(analysis::compare_runs(alone, judged, options, std::move(alignment)));
    if (i == 1 && !widen_by_run(first, alone, settings.files.front(), settings, options, tolerances)) return false;
    std::map<std::string, std::string> names;
    for (const analysis::DriftOp& op : report.drifts.back().ops) names[op.name_b] = op.name;
    if (!widen_by_run(other, judged, settings.files[i], settings, options, tolerances, names)) return false;
    describe(settings.files[i], other);
  }
  return !alone.judgement.interrupted;
}

}  // namespace driftbound::cli
