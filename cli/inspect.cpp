#include "analysis/inspect.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/common.hpp"
#include "cli/verbs.hpp"
#include "driftbound/model/load.hpp"

namespace driftbound::cli {
namespace {

struct InspectSettings {
  std::string file;
  bool ops = false, functions = false;
  InputOptions inputs;
};

int show(const std::string& text) {
  fmt::print("{}", text);
  return exit_ok;
}

int run_inspect(const InspectSettings& settings) {
  if (settings.functions) return show(analysis::describe_functions());
  if (settings.ops) return show(analysis::describe_ops());
  const ModelDescription description = describe_for_run(settings.file, settings.inputs);
  show(analysis::describe(description, settings.file));
  if (!description.unsupported.empty()) return exit_bad_input;
  const std::string complaint = non_finite_weight(description.graph);
  if (!complaint.empty()) fmt::print("\nNo run of it can be judged: {}.\n", complaint);
  return complaint.empty() ? exit_ok : exit_bad_input;
}

Verb::Run add_inspect(CLI::App& app, const std::string&) {
  auto settings = std::make_shared<InspectSettings>();
  settings->inputs.samples = 1;
  CLI::Option_group* const what = app.add_option_group("What to show");
  what->add_option("FILE", settings->file, "Model: .onnx, or a .npz layer dump");
  what->add_flag("--ops", settings->ops,
                 "Show every op that there is, with its opsets, evaluation, bounds and theorems");
  what->add_flag("--functions", settings->functions, "Show how accurate the functions of every known library are");
  app.add_option("--shape", settings->inputs.shapes,
                 "Shape of an input that the model leaves open: x=1x3x48x320 (repeatable)")
      ->allow_extra_args(false);
  what->require_option(1);
  return [settings] { return run_inspect(*settings); };
}

}  // namespace

Verb inspect() {
  return {"inspect", "Show layers, shapes, parameters, and every node that is not supported", add_inspect};
}

}  // namespace driftbound::cli
