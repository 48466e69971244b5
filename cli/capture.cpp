#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/verbs.hpp"

namespace driftbound::cli {
namespace {

struct CaptureSettings {
  std::string model, output;
  InputOptions inputs;
  RunSettings run;
  bool quiet = false;
};

int run_capture(const CaptureSettings& settings) {
  if (settings.output == "-")
    throw InvalidArgument(
        "--output: a trace cannot be written to standard output ('-'); name a file (./- for that name)");
  require_writable(settings.output);
  settings.run.check();
  require_distinct({settings.model, settings.inputs.file}, {settings.output});
  require_tensor_file(settings.output, "--output");
  const LoadedModel model = load_for_run(settings.model, &settings.inputs);
  require_distinct(model.data_files, {settings.output});
  const Trace trace = run_model(model, settings.inputs, settings.run, settings.quiet);
  write_trace(trace, target_of(settings.output));
  if (!settings.quiet)
    fmt::print("{}: {} layers, {} samples, {} in order {}\n", settings.output, trace.layers.size(), trace.samples,
               trace.arithmetic.name, to_string(trace.arithmetic.order));
  return exit_ok;
}

Verb::Run add_capture(CLI::App& app, const std::string&) {
  auto settings = std::make_shared<CaptureSettings>();
  add_model(app, settings->model);
  settings->inputs.add_to(app);
  settings->run.add_to(app);
  app.add_option("-o,--output", settings->output, "Trace to write (.safetensors)")->required();
  app.add_flag("--quiet", settings->quiet, "Print nothing but errors");
  return [settings, &app] {
    settings->inputs.check(app);
    return run_capture(*settings);
  };
}

}  // namespace

Verb capture() {
  return {"capture", "Run a model and record every layer's output in a trace file", add_capture};
}

}  // namespace driftbound::cli
