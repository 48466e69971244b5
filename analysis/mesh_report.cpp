#include "analysis/mesh_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "analysis/point_source.hpp"
#include "analysis/scalar.hpp"
#include "analysis/segment_report.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

/// The nodes of the cells of a mesh.
class MeshNodes : public PointSource {
public:
  explicit MeshNodes(const SurfaceMesh& mesh) : mesh_(mesh) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(mesh_.cells.nodes.size()); }
  void read(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::array<double, 3> point = mesh_.cells.point(static_cast<std::size_t>(first + i));
      std::copy_n(point.begin(), 3, out.begin() + 3 * i);
    }
  }
  Box range() const override { return mesh_.box; }
  std::string description() const override { return "the nodes of a mesh"; }
  std::string sha256() const override { return hash_of(description()); }

private:
  const SurfaceMesh& mesh_;
};

std::string count_of(std::int64_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string function_of(const MeshReport& report) {
  return function_text(report.scalar, report.iso);
}

/// What the mesh says though cells are uncertain.
std::string undecided_mesh(const SurfaceMesh& mesh) {
  const std::vector<MeshComponent>& components = mesh.topology.components;
  const auto certified =
      std::count_if(components.begin(), components.end(), [](const MeshComponent& part) { return part.is_certified; });
  if (components.empty())
    return "The mesh is empty, and nothing is certified: such cells may hold parts of the surface.";
  const std::string all = "The mesh has " + count_of(static_cast<std::int64_t>(components.size()), "component");
  if (certified == 0) return all + ", connected to such cells: none is certified.";
  return fmt::format("{}; {} not connected to such cells, and certified, at most {} from the surface.", all,
                     certified == 1 ? "1 is" : fmt::format("{} are", certified), bound_text(mesh.distance));
}

std::string mesh_headline(const MeshReport& report) {
  const SurfaceMesh& mesh = report.mesh;
  const std::string surface = fmt::format("the surface {} = {} in {}", report.scalar, report.iso, describe(report.box));
  const std::int64_t components = static_cast<std::int64_t>(mesh.topology.components.size());
  if (!mesh.is_certified())
    return fmt::format("UNDECIDED in {} of {}: {}. {}", mesh.uncertain_cells,
                       count_of(static_cast<std::int64_t>(mesh.cells.cells.size()), "cell"), surface,
                       undecided_mesh(mesh));
  if (components == 0)
    return fmt::format("CERTIFIED: {} is not 0 anywhere in {}. The mesh is empty.", function_of(report),
                       describe(report.box));
  return fmt::format("CERTIFIED: {} has {}, as the mesh has; mesh and surface are at most {} apart.", surface,
                     count_of(components, "component"), bound_text(mesh.distance));
}

std::string halved_text(const SurfaceMesh& mesh) {
  if (mesh.refinements == 0) return "";
  return fmt::format(", halved {}, as larger ones were uncertain",
                     mesh.refinements == 1 ? "once" : fmt::format("{} times", mesh.refinements));
}

Table component_table(const SurfaceMesh& mesh) {
  constexpr std::size_t most = 20;
  Table table{
      {{"component", 9}, {"euler", 6}, {"genus", 6}, {"boundary curves", 15}, {"triangles", 10}, {"certified", 9}}};
  const std::vector<MeshComponent>& components = mesh.topology.components;
  for (std::size_t i = 0; i < std::min(most, components.size()); ++i) {
    const MeshComponent& component = components[i];
    table.rows.push_back(
        {{static_cast<std::int64_t>(i), component.euler_characteristic(), component.genus(), component.boundary_loops,
          component.triangles, std::string(component.is_certified ? "yes" : "no")}});
  }
  return table;
}

std::string computed_text(const MeshReport& report) {
  const ComputedSurface& computed = *report.computed;
  const auto components = static_cast<std::int64_t>(computed.mesh.topology.components.size());
  const SurfaceDifference& difference = computed.difference;
  return fmt::format(
      "The same nodes evaluated in {}: {} of {} signs are wrong, in {} of {} cells. The surface would have other "
      "pieces than the mesh in {}, and {} in all: {} false, and of the mesh's own {} missing{}.",
      computed.arithmetic, computed.wrong_nodes, report.mesh.cells.nodes.size(), computed.wrong_cells,
      report.mesh.cells.cells.size(), count_of(difference.cells, "cell"), count_of(components, "component"),
      difference.false_components, difference.missing_components,
      report.computed_file.empty() ? "" : " (" + report.computed_file + ")");
}

Section mesh_remarks(const MeshReport& report) {
  const SurfaceMesh& mesh = report.mesh;
  const double rate = mesh.seconds > 0.0 ? static_cast<double>(mesh.boxes) / mesh.seconds : 0.0;
  Section section = {Paragraph{
      fmt::format("{} cells that the surface may pass, {} triangles; {} boxes enclosed; {:.3g} s, {} boxes/s, {}",
                  mesh.cells.cells.size(), mesh.triangles.size(), mesh.boxes, mesh.seconds, brief(rate),
                  count_of(report.threads, "thread")),
      Style::line}};
  if (mesh.is_exact)
    section.push_back(
        Paragraph{"The network is linear in pieces: the mesh is its surface itself, cut at the sides of cells; only "
                  "vertices are rounded."});
  if (mesh.topology.boundary_edges > 0)
    section.push_back(
        Paragraph{"The surface leaves the box: the mesh ends in curves on its sides, and is closed elsewhere."});
  if (!mesh.is_certified())
    section.push_back(Paragraph{
        fmt::format("Uncertain cells are red in .ply files{}. {}",
                    report.uncertain_file.empty() ? "; --uncertain writes them to a file of their own"
                                                  : ", and alone in " + report.uncertain_file,
                    mesh.is_exact ? "In them the surface passes a corner of linear pieces, or of a cell: another "
                                    "--cell or --iso may not; where sheets touch or cross, all do."
                                  : "Smaller cells (--cell, --refine) or a greater --depth may decide them; "
                                    "where two sheets touch or cross, nothing does.")});
  if (mesh.undecided_nodes > 0)
    section.push_back(
        Paragraph{fmt::format("At {} the sign is not decided with the precision allowed; the certificate does "
                              "not need it there.",
                              count_of(mesh.undecided_nodes, "node"))});
  if (report.computed) section.push_back(Paragraph{computed_text(report)});
  return section;
}

Json components_of(const SurfaceMesh& mesh) {
  Json list = Json::array();
  for (const MeshComponent& component : mesh.topology.components)
    list.push_back(object("euler_characteristic"_key = component.euler_characteristic(),
                          "genus"_key = component.genus(), "boundary_loops"_key = component.boundary_loops,
                          "vertices"_key = component.vertices, "edges"_key = component.edges,
                          "faces"_key = component.triangles, "certified"_key = component.is_certified));
  return list;
}

Json mesh_fields(const MeshReport& report) {
  const SurfaceMesh& mesh = report.mesh;
  Json json = object(
      "schema"_key = "driftbound/mesh/1", "version"_key = report.version, "date"_key = report.date,
      "command"_key = report.command,
      "model"_key = object("file"_key = report.model_file, "sha256"_key = report.model_sha256),
      "scalar"_key = report.scalar, "iso"_key = report.iso,
      "box"_key = object("lower"_key = mesh.box.lower, "upper"_key = mesh.box.upper), "cell"_key = mesh.cells.step,
      "refinements"_key = mesh.refinements, "depth"_key = report.depth, "threads"_key = report.threads,
      "mesh"_key = text_or_null(report.mesh_file), "certified"_key = mesh.is_certified(), "exact"_key = mesh.is_exact,
      "components"_key = static_cast<std::int64_t>(mesh.topology.components.size()),
      "euler_characteristic"_key = mesh.euler_characteristic(), "genus"_key = Json::array(),
      "uncertain_cells"_key = mesh.uncertain_cells, "cells"_key = static_cast<std::int64_t>(mesh.cells.cells.size()),
      "vertices"_key = static_cast<std::int64_t>(mesh.vertices.size()),
      "faces"_key = static_cast<std::int64_t>(mesh.triangles.size()),
      "boundary_edges"_key = mesh.topology.boundary_edges, "undecided_nodes"_key = mesh.undecided_nodes,
      "distance"_key = mesh.has_certified_part() ? Json(mesh.distance) : Json(), "boxes"_key = mesh.boxes,
      "seconds"_key = mesh.seconds, "parts"_key = components_of(mesh));
  for (const MeshComponent& component : mesh.topology.components) json["genus"].push_back(component.genus());
  if (report.computed)
    json["computed"] =
        object("arithmetic"_key = report.computed->arithmetic, "file"_key = text_or_null(report.computed_file),
               "nodes"_key = static_cast<std::int64_t>(mesh.cells.nodes.size()),
               "wrong_nodes"_key = report.computed->wrong_nodes, "wrong_cells"_key = report.computed->wrong_cells,
               "differing_cells"_key = report.computed->difference.cells,
               "false_components"_key = report.computed->difference.false_components,
               "missing_components"_key = report.computed->difference.missing_components,
               "components"_key = static_cast<std::int64_t>(report.computed->mesh.topology.components.size()),
               "euler_characteristic"_key = report.computed->mesh.euler_characteristic(),
               "seconds"_key = report.computed->seconds);
  return json;
}

}  // namespace

ComputedSurface computed_surface(const Graph& graph, const Target& target, double iso, const Evaluator& evaluator,
                                 const SurfaceMesh& mesh, int threads) {
  const auto start = std::chrono::steady_clock::now();
  ComputedSurface surface;
  const ArithmeticModel arithmetic = evaluator.arithmetic();
  surface.arithmetic = fmt::format("{} in order {}", arithmetic.name, to_string(arithmetic.order));
  std::vector<double> values;
  if (!mesh.cells.nodes.empty()) values = computed_values(graph, target, iso, evaluator, MeshNodes(mesh), threads);
  for (std::size_t i = 0; i < values.size(); ++i) {
    surface.wrong_nodes += (values[i] < 0.0) != (mesh.cells.values[i] < 0.0) ? 1 : 0;
    if (!(std::fabs(values[i]) > 0.0)) values[i] = 0x1p-1000;  // 0 and NaN count as outside
  }
  surface.mesh = mesh_of_values(mesh.cells, values);
  surface.wrong_cells = std::count(surface.mesh.is_wrong.begin(), surface.mesh.is_wrong.end(), true);
  surface.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  surface.difference = difference_of(mesh, surface.mesh);
  return surface;
}

Document document_of(const MeshReport& report) {
  Document document;
  document.verb = "mesh";
  document.title = report.model_file;
  document.date = report.date;
  document.seconds = report.mesh.seconds;
  document.verdict = report.mesh.is_certified() ? Status::holds : Status::undecided;
  document.headline = wrap(mesh_headline(report), 100);
  document.sections = {
      {},
      {Paragraph{fmt::format("{} · cells of {:.4g} x {:.4g} x {:.4g}{}{}", report.model_file, report.mesh.cells.step[0],
                             report.mesh.cells.step[1], report.mesh.cells.step[2], halved_text(report.mesh),
                             report.mesh_file.empty() ? "" : " · mesh in " + report.mesh_file),
                 Style::line}}};
  if (!report.mesh.topology.components.empty()) document.sections.push_back({component_table(report.mesh)});
  document.sections.push_back(mesh_remarks(report));
  document.fields = mesh_fields(report);
  document.exit_status = report.mesh.is_certified() ? 0 : 1;
  return document;
}

}  // namespace driftbound::analysis
