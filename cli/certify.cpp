#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include "analysis/certification.hpp"
#include "analysis/point_source.hpp"
#include "analysis/scalar.hpp"
#include "analysis/volume.hpp"
#include "cli/common.hpp"
#include "cli/fields.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/octree.hpp"
#include "driftbound/region/range.hpp"
#include "driftbound/trace/function_libraries.hpp"

namespace driftbound::cli {
namespace {

constexpr int exit_undecided = 1;

struct CertifySettings {
  std::string command;
  std::string model, points, grid, segment, scalar, signs, values, arithmetic_file, volume, octree;
  Outputs outputs;
  std::string box = "-1:1", policy = "report", iso_text = "0";
  RunSettings run;
  double band = -1.0, iso = 0.0, within = 0.0;
  std::int64_t samples = 10000;
  std::uint64_t seed = 1;
  int max_precision = 4096, threads = 0;
  bool has_band = false, resume = false;

  bool names_a_run() const {
    return run.backend != "auto" || !run.arithmetic.empty() || run.gemm != "auto" || !run.order.empty();
  }
};

analysis::Points parse_grid(const std::string& text, const Box& box) {
  std::vector<std::int64_t> extents;
  for (const std::string& part : split(text, 'x'))
    extents.push_back(
        parse_number<std::int64_t>(part, "--grid '" + text + "'", "one number a coordinate, as 64x64x64"));
  return analysis::points_of_grid(box, extents);
}

/// "0,0,1"; a number alone stands for every coordinate.
std::vector<double> parse_point(const std::string& text, const std::string& option, std::size_t coordinates) {
  std::vector<double> point;
  for (const std::string& part : split(text, ','))
    point.push_back(
        parse_number<double>(part, option, "A:B:N, where A and B are coordinates x,y,… and N a number of points"));
  if (point.size() == 1) point.resize(coordinates, point.front());
  if (point.size() != coordinates)
    throw InvalidArgument(fmt::format("{}: ({}) has {} coordinates, a point of this network has {}", option, text,
                                      point.size(), coordinates));
  return point;
}

/// Where the network has ops that regions do not know, no cell has a known sign.
void find_cell_signs(const CertifySettings& settings, const Graph& graph, const Target& target, const Octree* octree,
                     GridCells& cells) {
  try {
    const RegionEvaluator evaluator(graph, target,
                                    {.iso = settings.iso,
                                     .gradients = false,
                                     .rounding = false,
                                     .symbols = 0,
                                     .threads = thread_count(settings.threads)});
    cells.find_signs(evaluator, octree, [] { return !interrupted(); });
  } catch (const Unsupported&) {
  }
}

/// The image that the points of a grid make.
analysis::Volume volume_of(const CertifySettings& settings, const Graph& graph) {
  const std::int64_t coordinates = analysis::coordinates_of(graph);
  if (coordinates != 3)
    throw InvalidArgument(
        fmt::format("--vtk: VTK's image data has three coordinates, a point of this network {}", coordinates));
  analysis::Volume volume;
  volume.box = analysis::box_of(parse_domain(settings.box, "--box"), coordinates);
  const std::vector<std::string> extents = split(settings.grid, 'x');
  for (std::size_t c = 0; c < 3; ++c) volume.extents[c] = number_of<std::int64_t>(extents[c]).value_or(0);
  if (*std::min_element(volume.extents.begin(), volume.extents.end()) < 2)
    throw InvalidArgument("--vtk: an image needs a grid of at least two points in every coordinate");
  return volume;
}

/// A bound for the domain costs what about so many points cost without (docs/performance.md).
constexpr std::int64_t points_worth_a_bound = 1024;

struct Segment {
  std::vector<double> a, b;
  std::int64_t points = 0;
};

Segment parse_segment(const std::string& text, std::size_t coordinates) {
  const std::string option = "--segment '" + text + "'";
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3)
    throw InvalidArgument(option + ": write A:B:N, where A and B are coordinates x,y,… and N a number of points");
  return {parse_point(parts[0], option, coordinates), parse_point(parts[1], option, coordinates),
          parse_number<std::int64_t>(parts[2], option, "A:B:N")};
}

AtLimit at_limit(const std::string& policy) {
  if (policy == "negative") return AtLimit::treat_as_negative;
  if (policy == "positive") return AtLimit::treat_as_positive;
  return AtLimit::report;  // "throw" is seen to where points have their numbers
}

/// What is certified, and where.
struct Task {
  analysis::Scalar scalar;
  SignField field;
  analysis::Points points;
  std::optional<Segment> segment;
};

Task prepare(const CertifySettings& settings, const Graph& graph) {
  const std::int64_t coordinates = analysis::coordinates_of(graph);
  const Box box = analysis::box_of(parse_domain(settings.box, "--box"), coordinates);
  analysis::Points points;
  if (!settings.points.empty()) points = analysis::points_of_file(graph, settings.points);
  if (!settings.grid.empty()) points = parse_grid(settings.grid, box);
  std::optional<Segment> segment;
  if (!settings.segment.empty()) {
    segment = parse_segment(settings.segment, static_cast<std::size_t>(coordinates));
    points = analysis::points_of_segment(segment->a, segment->b, segment->points);
  }
  require_samples_apart(graph, points ? points->size() : settings.samples);

  SignOptions options;
  options.iso = settings.iso;
  options.domain = points ? points->range() : box;
  options.max_bits = settings.max_precision;
  options.at_limit = at_limit(settings.policy);
  options.threads = thread_count(settings.threads);
  analysis::Scalar scalar = analysis::scalar_or_only_output(graph, settings.scalar);
  SignField field(graph, scalar, options);
  // From the first point on: a run that is continued counts the same stages.
  if (points && points->size() >= points_worth_a_bound) field.prepare();
  if (!points) points = analysis::points_of_band(field, box, {settings.band, settings.samples, settings.seed});
  return {std::move(scalar), std::move(field), std::move(points), std::move(segment)};
}

/// Its zeros, and what a run in the arithmetic asked for shows of them.
analysis::SegmentReport report_segment(const CertifySettings& settings, const Graph& graph, const Task& task) {
  const Evaluator evaluator = settings.run.evaluator_for(graph);
  analysis::Progress evaluating("evaluating", !settings.outputs.quiet, "points"),
      searching("looking for zeros", !settings.outputs.quiet, "pieces of the segment");
  const std::vector<double> values = analysis::computed_values(
      graph, task.scalar, settings.iso, evaluator, *task.points, thread_count(settings.threads), shown_by(evaluating));
  evaluating.clear();
  analysis::SegmentReport report = analysis::report_segment(task.field, task.segment->a, task.segment->b, values,
                                                            settings.within, shown_by(searching));
  const ArithmeticModel arithmetic = evaluator.arithmetic();
  report.arithmetic = fmt::format("{} in order {}", arithmetic.name, to_string(arithmetic.order));
  return report;
}

std::string text_of_file(const std::string& file) {
  if (std::filesystem::is_directory(file)) throw FileError("cannot read " + file + ": it is a folder");
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) throw FileError("cannot read " + file);
  return text;
}

ArithmeticModel arithmetic_of_file(const std::string& file) {
  try {
    return arithmetic_from_json(text_of_file(file));
  } catch (const ParseError& error) {
    throw ParseError(fmt::format("{}: {}; write an arithmetic as docs/file-formats.md has it", file, error.what()));
  }
}

/// Of another program's values: from a file, or by name; in any order unless one is named.
ArithmeticModel arithmetic_of_values(const CertifySettings& settings, const Graph& graph) {
  if (!settings.arithmetic_file.empty()) return arithmetic_of_file(settings.arithmetic_file);
  const std::string order = settings.run.order.empty() ? "unknown" : settings.run.order;
  const std::string usual = graph.working_type() == ElementType::f64 ? "fp64" : "fp32";
  const std::string name = settings.run.arithmetic.empty() ? usual : settings.run.arithmetic;
  if (name == "fp64")
    throw InvalidArgument("--values computed in fp64: describe their arithmetic by --arithmetic-file");
  ArithmeticModel arithmetic = cpu_arithmetic(name, parse_summation_order(order));
  settings.run.store_results(graph, arithmetic);
  arithmetic.functions = function_library("cuda").functions;
  for (FunctionAccuracy& function : arithmetic.functions) function.evidence = Evidence::assumed;
  arithmetic.evidence = Evidence::assumed;
  arithmetic.source = "the command line";
  return arithmetic;
}

/// "tf32 (float32 sums, no matrix unit) in order unknown": of narrow operands it is said what adds them up.
std::string description_of(const ArithmeticModel& arithmetic) {
  std::string sums;
  if (arithmetic.input != arithmetic.accumulator && !arithmetic.tensor_core)
    sums = fmt::format(" ({} sums, no matrix unit)",
                       arithmetic.accumulator == FormatId::fp32 ? "float32" : format(arithmetic.accumulator).name);
  return fmt::format("{}{} in order {}", arithmetic.name, sums, to_string(arithmetic.order));
}

/// Of files with weights, that the model's own hash does not cover.
std::string sha256_of_files(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += sha256_of_file(file) + "\n";
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

/// What must be the same where a run is continued.
std::map<std::string, std::string> identity_of(const CertifySettings& settings, const Task& task,
                                               const LoadedModel& model) {
  std::map<std::string, std::string> identity = {
      {"version", DRIFTBOUND_VERSION},
      {"model", model.sha256},
      {"points", task.points->sha256()},
      {"--scalar", task.scalar.text},
      {"--iso", fmt::format("{}", settings.iso)},
      {"--max-precision", std::to_string(settings.max_precision)},
      {"--policy", settings.policy},
      {"--values", settings.values.empty() ? "" : sha256_of_file(settings.values)},
      {"arithmetic", settings.values.empty() ? "" : to_json(arithmetic_of_values(settings, task.field.graph()))}};
  if (!settings.octree.empty()) identity["--octree"] = sha256_of_file(settings.octree);
  if (!model.data_files.empty()) identity["weights"] = sha256_of_files(model.data_files);
  return identity;
}

/// Signs with what is beside them until they are whole.
std::vector<std::string> outputs_of(const CertifySettings& settings) {
  if (settings.signs.empty()) return settings.outputs.files({settings.volume});
  const std::string signs = target_of(settings.signs).string();
  return settings.outputs.files({signs, signs + ".part", signs + ".state", settings.volume});
}

void check(const CertifySettings& settings) {
  const int sources = static_cast<int>(!settings.points.empty()) + static_cast<int>(!settings.grid.empty()) +
                      static_cast<int>(!settings.segment.empty()) + static_cast<int>(settings.has_band);
  if (sources != 1)
    throw InvalidArgument("certify: say which points, by one of --points, --grid, --segment and --band");
  if (settings.resume && settings.signs.empty())
    throw InvalidArgument("--resume continues a file of signs: name it with --signs");
  if (settings.signs == "-") throw InvalidArgument("--signs: only --json can be written to standard output ('-')");
  settings.run.check();
  if (!settings.values.empty() && settings.points.empty())
    throw InvalidArgument("--values are of the points of a file: name it with --points");
  if (settings.values.empty() && !settings.arithmetic_file.empty())
    throw InvalidArgument("--arithmetic-file is that of --values");
  if (settings.segment.empty() && settings.values.empty() && settings.names_a_run())
    throw InvalidArgument(
        "certify: --backend, --arithmetic, --gemm and --order say how samples on a --segment, or --values, are "
        "computed");
  settings.outputs.check({settings.signs, settings.volume});
  if (!settings.volume.empty() && std::filesystem::path(settings.volume).extension() != ".vti")
    throw InvalidArgument(fmt::format("--vtk {}: what is written is VTK's image data; name it .vti", settings.volume));
  require_distinct({settings.model, settings.points, settings.values, settings.arithmetic_file, settings.octree},
                   outputs_of(settings));
}

/// Signs are whole before zeros are looked for.
int say_that_zeros_are_missing(const CertifySettings& settings) {
  const std::string signs = settings.signs.empty() ? "" : fmt::format("{} holds all signs; ", settings.signs);
  fmt::print(stderr, "driftbound: interrupted among the zeros of the segment: {}the same command makes the report\n",
             signs);
  return exit_interrupted;
}

/// Options that would say nothing of the points asked for, or of the values given.
void check_combinations(const CLI::App& app) {
  require_with(app, "--samples", {"--band"}, "other points have their own number; leave it out");
  require_with(app, "--seed", {"--band"}, "other points are not random; leave it out");
  require_with(app, "--box", {"--grid", "--band"}, "other points say themselves where they are; leave it out");
  require_with(app, "--within", {"--segment"}, "zeros are looked for on a segment alone; leave it out");
  require_with(app, "--vtk", {"--grid"}, "an image has points of a grid; leave it out");
  require_without(app, "--vtk", {"--resume"}, "signs of an earlier run come without values; leave one of the two out");
  require_without(app, "--octree", {"--values"}, "points in certain cells are not evaluated; leave one of the two out");
  require_without(app, "--values",
                  {"--backend", "--device", "--block", "--promotion", "--round-parts", "--gemm", "--algorithm"},
                  "values are computed already, --arithmetic and --order say how; leave one of the two out");
  require_without(app, "--arithmetic-file", {"--arithmetic", "--order"},
                  "the file says both; leave one of the two out");
}

int run_certify(const CertifySettings& settings) {
  check(settings);
  const LoadedModel model = load_for_run(settings.model);
  const Graph& graph = model.graph;
  require_distinct(model.data_files, outputs_of(settings));
  const Task task = prepare(settings, graph);
  std::optional<Octree> octree;
  if (!settings.octree.empty()) octree = Octree::load(settings.octree, graph, task.scalar, settings.iso);
  std::optional<analysis::Volume> volume;
  if (!settings.volume.empty()) {
    volume = volume_of(settings, graph);
    analysis::place_cells(*volume, *task.points);
    find_cell_signs(settings, graph, task.scalar, octree ? &*octree : nullptr, *volume->cells);
  }
  std::unique_ptr<analysis::SignFile> signs;
  if (!settings.signs.empty())
    signs = std::make_unique<analysis::SignFile>(
        target_of(settings.signs), task.points->size(), [&] { return identity_of(settings, task, model); },
        settings.resume);

  std::optional<analysis::GivenSigns> given;
  if (!settings.values.empty())
    given.emplace(task.field, arithmetic_of_values(settings, graph), settings.values, task.points->size());

  analysis::CertifyReport report = {.command = settings.command,
                                    .version = DRIFTBOUND_VERSION,
                                    .model_file = settings.model,
                                    .model_sha256 = model.sha256,
                                    .points = task.points->description(),
                                    .scalar = task.scalar.text,
                                    .policy = settings.policy,
                                    .iso = settings.iso,
                                    .max_bits = settings.max_precision,
                                    .threads = thread_count(settings.threads),
                                    .signs_file = settings.signs,
                                    .octree_file = settings.octree};
  {
    analysis::Progress progress("certifying", !settings.outputs.quiet, "points",
                                signs ? signs->start().counts.points : 0);
    analysis::CertifyOptions options;
    options.signs = signs.get();
    options.given = given ? &*given : nullptr;
    options.octree = octree ? &*octree : nullptr;
    options.fail_at_limit = settings.policy == "throw";
    options.progress = shown_by(progress);
    if (volume) options.keep = [&](std::span<const PointSign> signs_of_block) { volume->add(signs_of_block); };
    report.certification = analysis::certify(task.field, *task.points, options);
    if (volume && !report.certification.interrupted())
      analysis::evaluate_unvalued(*volume, *task.points, task.field, [] { return !interrupted(); });
  }
  try {
    if (task.segment && !report.certification.interrupted()) report.segment = report_segment(settings, graph, task);
  } catch (const Interrupted&) {
    return say_that_zeros_are_missing(settings);
  }
  report.date = analysis::now_utc();
  if (given) {
    report.values_file = settings.values;
    report.values_arithmetic = description_of(arithmetic_of_values(settings, graph));
    report.values_guarantee = name_of(given->guarantee());
    report.values_condition = given->condition();
  }
  const analysis::Document document = analysis::document_of(report);
  if (volume && !report.certification.interrupted()) write_whole(settings.volume, analysis::to_vti(*volume));
  settings.outputs.publish(document, {});
  if (!report.certification.interrupted()) return document.exit_status;
  if (!settings.signs.empty()) fmt::print(stderr, "driftbound: interrupted; the same command with --resume goes on\n");
  return exit_interrupted;
}

/// A point that no precision decides ends the work where that is the policy.
int run_certify_or_complain(const CertifySettings& settings) {
  try {
    return run_certify(settings);
  } catch (const UndecidedSign& error) {
    fmt::print(stderr, "driftbound: {}\n", error.what());
    return exit_undecided;
  }
}

Verb::Run add_certify(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<CertifySettings>();
  settings->command = command_line;
  add_model(app, settings->model);
  app.add_option("--points", settings->points,
                 "Points from a file, one a row: .npy (of any size), .csv, .npz, .safetensors");
  app.add_option("--grid", settings->grid, "Points of a grid over the box: 64x64x64");
  app.add_option("--segment", settings->segment, "N points from A to B: A:B:N, A and B as x,y,z");
  CLI::Option* band = app.add_option("--band", settings->band,
                                     "Random points of the box where |f| is this at most: around the surface");
  add_option(app, "--samples", settings->samples, "Points of a band", counts());
  add_option(app, "--seed", settings->seed, "Seed of a band", seeds());
  app.add_option("--box", settings->box, "Box of --grid and --band: lo:hi, or lo:hi,lo:hi,… one a coordinate")
      ->capture_default_str();
  app.add_option("--scalar", settings->scalar,
                 "Whose sign: OUTPUT[I] or OUTPUT[I]-OUTPUT[J] (default: the only output)");
  app.add_option("--iso", settings->iso_text, "f is the scalar minus this")->capture_default_str();
  add_option(app, "--max-precision", settings->max_precision, "Limit of the precision in bits", CLI::Range(106, 32767));
  add_option(app, "--policy", settings->policy,
             "What becomes of points that are undecided at the limit: reported, an error, or taken for a sign",
             CLI::IsMember({"report", "throw", "negative", "positive"}));
  app.add_option(
      "--values", settings->values,
      "What another program computed at the --points, one value a point (.npy), in --arithmetic and --order");
  app.add_option("--arithmetic-file", settings->arithmetic_file, "Arithmetic of --values as JSON, as traces have it");
  app.add_option("--octree", settings->octree,
                 "A tree that `driftbound octree` has written: points in certain cells are not evaluated");
  settings->run.add_arithmetic_to(app);
  add_option(app, "--within", settings->within,
             "How far apart, as a share of the segment, a zero of the run and a true one may be", CLI::Range(0.0, 1.0));
  app.add_option("--threads", settings->threads, "Threads (default: as many as there are cores)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--signs", settings->signs, "Write the signs (.npy, int8): -1, 0 proven zero, 1, 2 undecided");
  app.add_option("--vtk", settings->volume,
                 "Write values, signs and the cells between them as VTK's image data (.vti); with --grid");
  settings->outputs.add_json_to(app, "Write counts and stages as JSON (-: standard output, instead of the text)");
  app.add_flag("--resume", settings->resume, "Go on where an interrupted run of this command has left its --signs");
  settings->outputs.add_quiet_to(app);
  return [settings, band, &app] {
    check_combinations(app);
    settings->iso = parse_number<double>(settings->iso_text, "--iso", "it as -0.25 or -0x1p-2");
    settings->has_band = band->count() > 0;
    return run_certify_or_complain(*settings);
  };
}

}  // namespace

Verb certify() {
  return {"certify", "Certify the sign of an output of the exact network at points", add_certify};
}

}  // namespace driftbound::cli
