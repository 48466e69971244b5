#include "cli/drift_modes.hpp"

namespace driftbound::cli {

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

}  // namespace driftbound::cli
