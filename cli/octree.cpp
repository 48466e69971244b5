#include "driftbound/region/octree.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "analysis/octree_report.hpp"
#include "analysis/point_source.hpp"
#include "analysis/scalar.hpp"
#include "cli/common.hpp"
#include "cli/fields.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/verbs.hpp"

namespace driftbound::cli {
namespace {

/// What is lost at most where the program is killed.
constexpr std::chrono::seconds between_saves(30);
/// Less than asked for is certain.
constexpr int exit_not_reached = 1;

struct OctreeSettings {
  std::string command, model, file, box = "-1:1";
  FieldSettings field;
  Outputs outputs;
  double share = 1.0;
  int depth = 8;
  bool resume = false;
};

/// The tree that is continued; empty: none.
std::optional<Octree> tree_before(const OctreeSettings& settings, const Graph& graph, const Target& target,
                                  double iso) {
  if (!settings.resume) return std::nullopt;
  if (!std::filesystem::exists(settings.file))
    throw InvalidArgument("--resume goes on with the tree in " + settings.file + ", which is not there");
  return Octree::load(settings.file, graph, target, iso);
}

/// Builds the tree, and saves what there is of it now and then.
Octree build(const OctreeSettings& settings, const Graph& graph, const Target& target, OctreeOptions options,
             const std::optional<Octree>& before) {
  analysis::Progress shown("enclosing", !settings.outputs.quiet, "cells");
  const auto start = std::chrono::steady_clock::now();
  auto saved = start;
  options.progress = [&](std::int64_t cells, double) {
    shown.update(cells);
    return !interrupted() && std::chrono::steady_clock::now() - saved < between_saves;
  };
  Octree tree = before ? before->refined(options) : Octree::build(graph, target, options);
  while (!tree.is_complete(options) && !interrupted()) {
    tree.save(settings.file);
    saved = std::chrono::steady_clock::now();
    const std::int64_t cells = tree.counts().cells;
    tree = tree.refined(options);
    if (tree.counts().cells == cells && !interrupted()) break;  // as many as there may be
  }
  tree.save(settings.file);
  return tree;
}

int run_octree(const OctreeSettings& settings) {
  settings.outputs.check({settings.file});
  require_distinct({settings.model}, settings.outputs.files({settings.file}));
  const auto start = std::chrono::steady_clock::now();
  const LoadedModel model = load_for_run(settings.model);
  require_distinct(model.data_files, settings.outputs.files({settings.file}));
  const analysis::Scalar scalar = analysis::scalar_or_only_output(model.graph, settings.field.scalar);
  OctreeOptions options;
  options.iso = settings.field.iso();
  options.domain = analysis::box_of(parse_domain(settings.box, "--box"), analysis::coordinates_of(model.graph));
  options.depth = settings.depth;
  options.certain_share = settings.share;
  options.threads = thread_count(settings.field.threads);
  const std::optional<Octree> before = tree_before(settings, model.graph, scalar, options.iso);
  if (before && (before->domain().lower != options.domain->lower || before->domain().upper != options.domain->upper))
    throw InvalidArgument("--resume: the tree in " + settings.file + " is of another --box");
  const Octree tree = build(settings, model.graph, scalar, options, before);

  analysis::OctreeReport report;
  report.command = settings.command;
  report.version = DRIFTBOUND_VERSION;
  report.date = analysis::now_utc();
  report.model_file = settings.model;
  report.model_sha256 = model.sha256;
  report.scalar = scalar.text;
  report.file = settings.file;
  report.iso = options.iso;
  report.depth = settings.depth;
  report.threads = options.threads;
  report.asked_share = settings.share;
  report.domain = tree.domain();
  report.counts = tree.counts();
  report.cells_before = before ? before->counts().cells : 0;
  report.depth_is_reached = tree.is_complete(options);
  report.is_complete =
      report.depth_is_reached && (settings.share == 1.0 || report.counts.certain_share >= settings.share);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  settings.outputs.publish(analysis::document_of(report), {});
  if (!interrupted()) return report.is_complete ? exit_ok : exit_not_reached;
  fmt::print(stderr, "driftbound: interrupted; the same command with --resume goes on\n");
  return exit_interrupted;
}

Verb::Run add_octree(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<OctreeSettings>();
  settings->command = command_line;
  add_model(app, settings->model);
  app.add_option("-o,--output", settings->file, "The tree that is written (.oct)")->required();
  app.add_option("--box", settings->box, "Domain: lo:hi, or lo:hi,lo:hi,… one a coordinate")->capture_default_str();
  add_option(app, "--depth", settings->depth, "Cells are halved this often at most", CLI::Range(0, 20));
  add_option(app, "--share", settings->share, "Enough: the share of the volume whose sign is certain",
             CLI::Range(0.0, 1.0));
  add_field_options(app, settings->field, "Whose sign");
  app.add_flag("--resume", settings->resume, "Go on with the tree in the output file");
  settings->outputs.add_json_to(app, "Write counts as JSON (-: standard output, instead of the text)");
  settings->outputs.add_quiet_to(app);
  return [settings] { return run_octree(*settings); };
}

}  // namespace

Verb octree() {
  return {"octree", "Find the cells of space in which the sign of a network is certain, and save them", add_octree};
}

}  // namespace driftbound::cli
