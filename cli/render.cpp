#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "analysis/point_source.hpp"
#include "analysis/render_report.hpp"
#include "analysis/scalar.hpp"
#include "cli/common.hpp"
#include "cli/fields.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/verbs.hpp"
#include "driftbound/region/rays.hpp"

namespace driftbound::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct RenderSettings {
  std::string command, model, file, tree, box = "-1:1", size = "512x512";
  std::string eye = "2.2,1.4,1.8", target = "0,0,0", up = "0,1,0";
  FieldSettings field;
  Outputs outputs;
  double angle = 40.0;
  int depth = 6;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<double> parse_vector(const std::string& text, const std::string& option) {
  std::vector<double> vector;
  for (const std::string& part : split(text, ','))
    vector.push_back(parse_number<double>(part, option, "three numbers, as 2,1,1"));
  const bool is_finite = std::all_of(vector.begin(), vector.end(), [](double x) { return std::isfinite(x); });
  if (vector.size() != 3 || !is_finite)
    throw InvalidArgument(fmt::format("{}: '{}' are not three numbers, all of them finite", option, text));
  return vector;
}

analysis::View view_of(const RenderSettings& settings) {
  analysis::View view;
  const std::vector<std::string> sides = split(settings.size, 'x');
  if (sides.size() != 2) throw InvalidArgument("--size: '" + settings.size + "' is no size; write it as 640x480");
  view.width = parse_number<std::int64_t>(sides[0], "--size", "it as 640x480");
  view.height = parse_number<std::int64_t>(sides[1], "--size", "it as 640x480");
  if (view.width < 1 || view.height < 1 || view.width > 1 << 14 || view.height > 1 << 14)
    throw InvalidArgument("--size: sides are 1 to 16384 pixels, not " + settings.size);
  view.eye = parse_vector(settings.eye, "--eye");
  view.target = parse_vector(settings.target, "--target");
  view.up = parse_vector(settings.up, "--up");
  view.angle = settings.angle;
  return view;
}

Octree tree_of(const RenderSettings& settings, const Graph& graph, const Target& target) {
  const double iso = settings.field.iso();
  if (!settings.tree.empty()) return Octree::load(settings.tree, graph, target, iso);
  OctreeOptions options;
  options.iso = iso;
  options.domain = analysis::box_of(parse_domain(settings.box, "--box"), analysis::coordinates_of(graph));
  options.depth = settings.depth;
  options.threads = thread_count(settings.field.threads);
  analysis::Progress shown("enclosing", !settings.outputs.quiet, "cells");
  options.progress = [&](std::int64_t cells, double) {
    shown.update(cells);
    return !interrupted();
  };
  Octree tree = Octree::build(graph, target, options);
  if (interrupted()) throw Interrupted("interrupted");
  return tree;
}

int run_render(const RenderSettings& settings) {
  settings.outputs.check({settings.file});
  const analysis::PictureFormat format = analysis::picture_format(settings.file);
  require_distinct({settings.model, settings.tree}, settings.outputs.files({settings.file}));
  const LoadedModel model = load_for_run(settings.model);
  require_distinct(model.data_files, settings.outputs.files({settings.file}));
  const analysis::Scalar scalar = analysis::scalar_or_only_output(model.graph, settings.field.scalar);
  if (analysis::coordinates_of(model.graph) != 3)
    throw InvalidArgument("render: pictures are of networks of three coordinates");
  analysis::RenderReport report;
  report.view = view_of(settings);
  auto start = Clock::now();
  const Octree tree = tree_of(settings, model.graph, scalar);
  report.octree_seconds = seconds_since(start);
  start = Clock::now();
  RayOptions options;
  options.threads = thread_count(settings.field.threads);
  const std::vector<RayHit> hits = first_hits(tree, report.view.rays(tree.domain()), options);
  report.ray_seconds = seconds_since(start);
  for (const RayHit& hit : hits)
    (hit.verdict == RayVerdict::hit    ? report.hits
     : hit.verdict == RayVerdict::miss ? report.misses
                                       : report.undecided) += 1;
  report.command = settings.command;
  report.version = DRIFTBOUND_VERSION;
  report.date = analysis::now_utc();
  report.model_file = settings.model;
  report.model_sha256 = model.sha256;
  report.scalar = scalar.text;
  report.iso = tree.iso();
  report.file = settings.file;
  report.threads = options.threads;
  write_whole(settings.file, analysis::picture_of(report.view, hits, format));
  settings.outputs.publish(analysis::document_of(report), {});
  return exit_ok;
}

Verb::Run add_render(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<RenderSettings>();
  settings->command = command_line;
  add_model(app, settings->model);
  app.add_option("-o,--output", settings->file, "The picture that is written (.png, .ppm)")->required();
  CLI::Option* const tree = app.add_option("--octree", settings->tree, "A tree that `driftbound octree` has written");
  app.add_option("--box", settings->box, "Domain: lo:hi, or lo:hi,lo:hi,lo:hi")->capture_default_str()->excludes(tree);
  add_option(app, "--depth", settings->depth, "Depth of the tree that is built", CLI::Range(0, 20))->excludes(tree);
  app.add_option("--size", settings->size, "Pixels: WIDTHxHEIGHT")->capture_default_str();
  app.add_option("--eye", settings->eye, "Where the eye is: x,y,z")->capture_default_str();
  app.add_option("--target", settings->target, "What it looks at: x,y,z")->capture_default_str();
  app.add_option("--up", settings->up, "Which direction is up: x,y,z")->capture_default_str();
  add_option(app, "--angle", settings->angle, "Angle of the view in degrees", CLI::Range(1.0, 160.0));
  add_field_options(app, settings->field, "Whose zeros");
  settings->outputs.add_json_to(app, "Write counts as JSON (-: standard output, instead of the text)");
  settings->outputs.add_quiet_to(app);
  return [settings] { return run_render(*settings); };
}

}  // namespace

Verb render() {
  return {"render", "Draw the surface where an output is 0, each pixel certain to hit or miss it, or undecided",
          add_render};
}

}  // namespace driftbound::cli
