#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "analysis/mesh_report.hpp"
#include "analysis/point_source.hpp"
#include "analysis/scalar.hpp"
#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

struct MeshSettings {
  std::string command, model, box = "-1:1", cell, iso = "0", scalar, output, uncertain, computed;
  Outputs outputs;
  RunSettings run;
  int depth = 6, refinements = 1, threads = 0;
};

double parse_real(const std::string& text, const char* option, const char* usage) {
  if (const auto value = real_of(text)) return *value;
  throw InvalidArgument(fmt::format("{} '{}' is not a number; write {}", option, text, usage));
}

void require_mesh_file(const std::string& file, const char* option) {
  constexpr std::array endings = {".ply", ".obj", ".vtp", ".stl"};
  if (file.empty()) return;
  const std::string ending = std::filesystem::path(file).extension().string();
  if (std::find(endings.begin(), endings.end(), ending) == endings.end())
    throw InvalidArgument(
        fmt::format("{} {}: a mesh is written as .ply, .obj, .vtp or .stl, by the ending of its name", option, file));
}

void check_mesh_settings(const MeshSettings& settings) {
  require_mesh_file(settings.output, "--output");
  require_mesh_file(settings.uncertain, "--uncertain");
  require_mesh_file(settings.computed, "--computed");
  settings.run.check();
  settings.outputs.check({settings.output, settings.uncertain, settings.computed});
  require_distinct({settings.model}, settings.outputs.files({settings.output, settings.uncertain, settings.computed}));
}

int run_mesh(const MeshSettings& settings) {
  check_mesh_settings(settings);
  const LoadedModel model = load_for_run(settings.model);
  require_distinct(model.data_files, settings.outputs.files({settings.output, settings.uncertain, settings.computed}));
  const analysis::Scalar scalar = analysis::scalar_or_only_output(model.graph, settings.scalar);
  const Box box = analysis::box_of(parse_domain(settings.box, "--box"), analysis::coordinates_of(model.graph));
  MeshOptions options;
  options.iso = parse_real(settings.iso, "--iso", "it as -0.25, -0x1p-2 or 2^-2");
  options.depth = settings.depth;
  options.refinements = settings.refinements;
  options.threads = thread_count(settings.threads);
  if (!settings.cell.empty()) {
    options.cell = parse_real(settings.cell, "--cell", "it as 0.01 or 2^-7");
    if (options.cell == 0.0) throw InvalidArgument("--cell 0: the side of a cell must be a positive number");
  }
  analysis::MeshReport report = {.command = settings.command,
                                 .version = DRIFTBOUND_VERSION,
                                 .model_file = settings.model,
                                 .model_sha256 = model.sha256,
                                 .scalar = scalar.text,
                                 .box = box,
                                 .iso = options.iso,
                                 .depth = options.depth,
                                 .threads = options.threads,
                                 .mesh_file = settings.output,
                                 .uncertain_file = settings.uncertain,
                                 .computed_file = settings.computed};
  {
    analysis::Progress progress("meshing", !settings.outputs.quiet, "boxes");
    options.progress = shown_by(progress);
    report.mesh = driftbound::mesh(model.graph, box, options, scalar);
  }
  const Evaluator evaluator = settings.run.evaluator_for(model.graph);
  report.computed =
      analysis::computed_surface(model.graph, scalar, options.iso, evaluator, report.mesh, options.threads);
  report.date = analysis::now_utc();
  const analysis::Document document = analysis::document_of(report);
  // Before the verdict, which says what they are.
  if (!settings.output.empty()) write_mesh(report.mesh, target_of(settings.output));
  if (!settings.uncertain.empty()) write_uncertain_cells(report.mesh, target_of(settings.uncertain));
  if (!settings.computed.empty()) write_mesh(report.computed->mesh, target_of(settings.computed));
  settings.outputs.publish(document, {});
  return document.exit_status;
}

Verb::Run add_mesh(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<MeshSettings>();
  settings->command = command_line;
  add_model(app, settings->model);
  app.add_option("--box", settings->box, "Where: lo:hi, or lo:hi,lo:hi,lo:hi")->capture_default_str();
  app.add_option("--cell", settings->cell,
                 "Longest side of a cell of the mesh, as 0.01 or 2^-7 (default: a 128th of the box)");
  app.add_option("--iso", settings->iso, "The surface is where the scalar is this")->capture_default_str();
  add_option(app, "--depth", settings->depth, "How often the search for a certificate may halve a cell",
             CLI::Range(0, 12));
  add_option(app, "--refine", settings->refinements,
             "How often all cells may be halved, and the box meshed anew, where some stay uncertain",
             CLI::Range(0, 12));
  app.add_option("--scalar", settings->scalar,
                 "Whose surface: OUTPUT[I] or OUTPUT[I]-OUTPUT[J] (default: the only output)");
  app.add_option("-o,--output", settings->output, "Write the mesh: .ply, .obj, .vtp or .stl");
  app.add_option("--uncertain", settings->uncertain, "Write the uncertain cells as boxes, in the same formats");
  app.add_option("--computed", settings->computed, "Write the mesh that computed values give, in the same formats");
  settings->run.add_arithmetic_to(app);
  app.add_option("--threads", settings->threads, "Threads (default: as many as there are cores)")
      ->check(CLI::Range(1, 1 << 16));
  settings->outputs.add_json_to(app, "Write the report as JSON (-: standard output, instead of the text)");
  settings->outputs.add_quiet_to(app);
  return [settings] { return run_mesh(*settings); };
}

}  // namespace

Verb mesh() {
  return {"mesh", "Mesh the surface of the exact network, with a certificate of its topology", add_mesh};
}

}  // namespace driftbound::cli
