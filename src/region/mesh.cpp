#include "driftbound/region/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/range.hpp"
#include "implicit/scalar_graph.hpp"
#include "num/elapsed.hpp"
#include "region/mesh_certificate.hpp"
#include "region/mesh_function.hpp"
#include "region/mesh_lattice.hpp"
#include "region/mesh_pieces.hpp"
#include "region/mesh_polygons.hpp"
#include "region/mesh_search.hpp"
#include "region/piece_network.hpp"

namespace driftbound {
namespace {

using meshing::CellIndex;
using meshing::Certificate;
using meshing::EdgePoints;
using meshing::Index;
using meshing::Lattice;
using meshing::Polygons;

void check_mesh(const MeshOptions& options) {
  if (options.depth < 0 || options.depth > 12)
    throw InvalidArgument(fmt::format("mesh: a depth of {} is out of range; use 0 to 12", options.depth));
  if (options.refinements < 0 || options.refinements > 12)
    throw InvalidArgument(fmt::format("mesh: cells cannot be halved {} times; use 0 to 12", options.refinements));
  if (!std::isfinite(options.iso))
    throw InvalidArgument(fmt::format("mesh: the iso value {} is not finite", options.iso));
}

/// Where f is 0 it counts as positive; what is undecided keeps its value, but 0.
double value_with_sign(const PointSign& found) {
  constexpr double smallest = std::numeric_limits<double>::min();
  const double size = std::fmax(std::fabs(found.value), smallest);
  if (found.sign == Sign::undecided) return found.value < 0.0 ? -size : size;
  return found.sign == Sign::negative ? -size : size;
}

/// What is known of f at the nodes.
struct NodeKnowledge {
  std::vector<double> bounds;    ///< of how far the values are from f
  std::vector<bool> is_decided;  ///< whether their signs are those of f, where that is not 0
};

NodeKnowledge evaluate_nodes(SurfaceMesh& mesh, const SignField& field, const meshing::Report& report) {
  SurfaceCells& cells = mesh.cells;
  std::vector<double> points;
  points.reserve(3 * cells.nodes.size());
  for (std::size_t i = 0; i < cells.nodes.size(); ++i)
    for (const double x : cells.point(i)) points.push_back(x);
  std::vector<PointSign> signs(cells.nodes.size());
  constexpr std::size_t nodes_at_once = 1 << 15;
  for (std::size_t first = 0; first < signs.size(); first += nodes_at_once) {
    const std::size_t count = std::min(nodes_at_once, signs.size() - first);
    field.signs(points.data() + 3 * first, static_cast<std::int64_t>(count), 3, 1,
                std::span(signs).subspan(first, count));
    report(static_cast<std::int64_t>(first + count), static_cast<std::int64_t>(signs.size()));
  }
  NodeKnowledge known;
  for (const PointSign& found : signs) {
    cells.values.push_back(value_with_sign(found));
    known.bounds.push_back((found.bound + std::fabs(cells.values.back() - found.value)) * (1.0 + 0x1p-50));
    known.is_decided.push_back(found.sign != Sign::undecided);
    if (found.sign == Sign::undecided) ++mesh.undecided_nodes;
  }
  return known;
}

/// Calls visit(neighbour) for a cell and all that touch it.
template <class Visit>
void for_each_neighbour(const SurfaceCells& cells, const CellIndex& index, std::size_t cell, const Visit& visit) {
  const Index& at = cells.cells[cell];
  for (std::int64_t i = -1; i <= 1; ++i)
    for (std::int64_t j = -1; j <= 1; ++j)
      for (std::int64_t k = -1; k <= 1; ++k)
        if (const std::int32_t found = index.at({at[0] + i, at[1] + j, at[2] + k}); found >= 0)
          visit(static_cast<std::size_t>(found));
}

/// Cells that are connected to an uncertain one by cells that touch each other.
std::vector<bool> connected_to_uncertain(const SurfaceMesh& mesh, const CellIndex& index) {
  std::vector<bool> reached = mesh.is_uncertain;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < reached.size(); ++i)
    if (reached[i]) open.push_back(i);
  while (!open.empty()) {
    const std::size_t cell = open.back();
    open.pop_back();
    for_each_neighbour(mesh.cells, index, cell, [&](std::size_t next) {
      if (reached[next]) return;
      reached[next] = true;
      open.push_back(next);
    });
  }
  return reached;
}

/// By cell: how far vertices of its triangles are from where the piecewise linear function is 0, at most.
std::vector<double> largest_shifts(const SurfaceCells& cells, const Polygons& polygons, const EdgePoints& points,
                                   const EdgePoints& of_function) {
  std::vector<double> of_edge(polygons.edges.size()), largest(cells.cells.size(), 0.0);
  for (std::size_t i = 0; i < of_edge.size(); ++i)
    of_edge[i] = (std::fabs(points.shares[i] - of_function.shares[i]) + 0x1p-19) * length_of(cells, polygons.edges[i]);
  for (std::size_t t = 0; t < polygons.triangles.size(); ++t) {
    double& of_cell = largest[static_cast<std::size_t>(polygons.cell_of[t])];
    for (const std::int32_t vertex : polygons.triangles[t])
      of_cell = std::fmax(of_cell, of_edge[static_cast<std::size_t>(vertex)]);
  }
  return largest;
}

/// Whether the piecewise linear function changes its sign in a cell.
bool changes_sign(const SurfaceCells& cells, std::size_t cell) {
  const auto is_negative = [&](std::int32_t node) { return cells.values[static_cast<std::size_t>(node)] < 0.0; };
  const auto& corners = cells.corners[cell];
  return std::any_of(corners.begin(), corners.end(), is_negative) &&
         !std::all_of(corners.begin(), corners.end(), is_negative);
}

/// How far a zero of the piecewise linear function in this cell is from the zero of f that belongs to it, at most: the
/// way between them stays within so many cells as it is long.
double way_from(const SurfaceCells& cells, const CellIndex& index, const Certificate& certificate, std::size_t cell,
                double slowest) {
  constexpr int most_steps = 6;
  const double shortest = std::min({cells.step[0], cells.step[1], cells.step[2]});
  const double deviation = certificate.deviation[cell];
  double rate = certificate.rate[cell];
  std::vector<std::size_t> reached = {cell}, front = {cell};
  for (int steps = 1; steps <= most_steps; ++steps) {
    std::vector<std::size_t> next;
    for (const std::size_t from : front)
      for_each_neighbour(cells, index, from, [&](std::size_t to) {
        if (std::find(reached.begin(), reached.end(), to) != reached.end()) return;
        reached.push_back(to);
        next.push_back(to);
        rate = std::fmin(rate, certificate.rate[to]);
      });
    if (const double way = deviation / rate; way < steps * shortest) return way;
    front = std::move(next);
  }
  return deviation / slowest;
}

/// How many cells each is from one of `front`, by cells that touch each other; -1: not connected to them.
std::vector<std::int32_t> steps_from(const SurfaceCells& cells, const CellIndex& index,
                                     std::vector<std::size_t> front) {
  std::vector<std::int32_t> steps(cells.cells.size(), -1);
  for (const std::size_t cell : front) steps[cell] = 0;
  for (std::size_t next = 0; next < front.size(); ++next)
    for_each_neighbour(cells, index, front[next], [&](std::size_t to) {
      if (steps[to] >= 0) return;
      steps[to] = steps[front[next]] + 1;
      front.push_back(to);
    });
  return steps;
}

/// Source:    docs/theory.md T-163, T-143
double distance_of(const SurfaceMesh& mesh, const CellIndex& index, const Certificate& certificate,
                   const std::vector<bool>& is_left_out, const std::vector<bool>& is_decided,
                   const std::vector<double>& shifts) {
  if (mesh.triangles.empty()) return 0.0;
  const SurfaceCells& cells = mesh.cells;
  const double diagonal = std::hypot(cells.step[0], cells.step[1], cells.step[2]) * (1.0 + 0x1p-48);
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < cells.cells.size(); ++i)
    if (!is_left_out[i]) slowest = std::fmin(slowest, certificate.rate[i]);
  double by_lines = 0.0, to_surface = 0.0, to_mesh = 0.0;
  std::vector<std::size_t> passed;
  for (std::size_t i = 0; i < cells.cells.size(); ++i) {
    if (is_left_out[i] || !changes_sign(cells, i)) continue;
    passed.push_back(i);
    const double way = way_from(cells, index, certificate, i, slowest) + shifts[i];
    const bool holds_zero = std::all_of(cells.corners[i].begin(), cells.corners[i].end(),
                                        [&](std::int32_t node) { return is_decided[static_cast<std::size_t>(node)]; });
    by_lines = std::fmax(by_lines, way);
    to_surface = std::fmax(to_surface, holds_zero ? std::fmin(way, diagonal) : way);
  }
  const std::vector<std::int32_t> steps = steps_from(cells, index, std::move(passed));
  for (std::size_t i = 0; i < cells.cells.size(); ++i)
    if (!is_left_out[i] && std::isfinite(certificate.rate[i]) && steps[i] >= 0)
      to_mesh = std::fmax(to_mesh, (steps[i] + 1) * diagonal);
  return std::fmax(to_surface, std::fmin(by_lines, to_mesh)) * (1.0 + 0x1p-48);
}

void certify_components(SurfaceMesh& mesh, const std::vector<bool>& is_left_out) {
  for (MeshComponent& component : mesh.topology.components) component.is_certified = true;
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
    if (is_left_out[static_cast<std::size_t>(mesh.cell_of[t])])
      mesh.topology.components[static_cast<std::size_t>(mesh.topology.component[t])].is_certified = false;
}

void take_polygons(SurfaceMesh& mesh, const Polygons& polygons, const EdgePoints& points) {
  mesh.vertices = points_on_edges(mesh.cells, polygons, points.shares);
  for (std::size_t i = 0; i < polygons.edges.size(); ++i)
    mesh.vertex_distances.push_back(points.radii[i] * length_of(mesh.cells, polygons.edges[i]));
  mesh.triangles = polygons.triangles;
  mesh.cell_of = polygons.cell_of;
  mesh.topology = topology_of(mesh.vertices.size(), mesh.triangles);
}

/// Source:    docs/theory.md T-164, T-165
void take_pieces(SurfaceMesh& mesh, meshing::PieceSurface surface) {
  mesh.is_exact = true;
  mesh.vertices = std::move(surface.vertices);
  mesh.vertex_distances = std::move(surface.radii);
  mesh.triangles = std::move(surface.triangles);
  mesh.cell_of = std::move(surface.cell_of);
  mesh.topology = topology_of(mesh.vertices.size(), mesh.triangles);
  mesh.is_uncertain = std::move(surface.is_uncertain);
  mesh.uncertain_cells = std::count(mesh.is_uncertain.begin(), mesh.is_uncertain.end(), true);
  certify_components(mesh, connected_to_uncertain(mesh, CellIndex(mesh.cells)));
  for (const double distance : mesh.vertex_distances) mesh.distance = std::fmax(mesh.distance, distance);
  if (!mesh.has_certified_part()) mesh.distance = std::numeric_limits<double>::infinity();
}

SurfaceMesh mesh_with_cells(const Graph& graph, const Box& box, double cell, const MeshOptions& options,
                            const Target& target) {
  const auto report = [&](std::int64_t done, std::int64_t known) {
    if (options.progress && !options.progress(done, known)) throw Interrupted("interrupted");
  };
  SurfaceMesh mesh;
  RegionOptions of_region{
      .iso = options.iso, .gradients = false, .rounding = false, .symbols = 0, .threads = options.threads};
  const RegionEvaluator values(graph, target, of_region);
  if (values.dimension() != 3)
    throw InvalidArgument(fmt::format("{}: a mesh needs a network of three coordinates, this one has {}", graph.source,
                                      values.dimension()));
  const Lattice lattice = meshing::lattice_of(box, cell);
  mesh.box = lattice.box();
  meshing::FoundCells found = meshing::cells_with_surface(lattice, values, report);
  SurfaceCells& cells = mesh.cells;
  cells.cells = std::move(found.cells);
  cells.extents = lattice.cells;
  for (std::size_t c = 0; c < 3; ++c) {
    cells.lower[c] = lattice.coordinate(c, 0);
    cells.step[c] = lattice.cell_side(c);
  }
  meshing::number_nodes(cells);
  SignOptions of_signs;
  of_signs.iso = options.iso;
  of_signs.domain = mesh.box;
  of_signs.max_bits = options.max_bits;
  of_signs.threads = options.threads;
  const SignField field(graph, target, of_signs);
  const NodeKnowledge nodes = evaluate_nodes(mesh, field, report);
  mesh.boxes = found.boxes;
  const Graph scalar = implicit::scalar_graph(graph, implicit::checked_target(graph, &target), options.iso);
  if (const auto network = region::PieceNetwork::of(scalar)) {
    if (auto surface = meshing::surface_in_pieces(cells, *network, options.threads, report)) {
      take_pieces(mesh, std::move(*surface));
      return mesh;
    }
  }

  of_region.gradients = true;
  const CellIndex index(cells);
  const Certificate certificate = meshing::certify_cells(
      lattice, cells, index, nodes.bounds, RegionEvaluator(graph, target, of_region),
      meshing::TurnedEvaluators(graph, target, of_region), options.depth, options.threads, report);
  mesh.is_uncertain = certificate.is_uncertain;
  mesh.uncertain_cells = std::count(mesh.is_uncertain.begin(), mesh.is_uncertain.end(), true);
  mesh.boxes += certificate.boxes;

  const Polygons polygons = meshing::polygons_of(cells, cells.values);
  EdgePoints points = meshing::bracketed(lattice, cells, polygons, field);
  take_polygons(mesh, polygons, points);
  const std::vector<bool> is_left_out = connected_to_uncertain(mesh, index);
  certify_components(mesh, is_left_out);
  const std::vector<double> shifts =
      largest_shifts(cells, polygons, points, meshing::interpolated(polygons, cells.values));
  mesh.distance = mesh.has_certified_part()
                      ? distance_of(mesh, index, certificate, is_left_out, nodes.is_decided, shifts)
                      : std::numeric_limits<double>::infinity();
  return mesh;
}

/// Whether smaller cells may be certain.
bool may_be_refined(const SurfaceMesh& mesh) {
  return !mesh.is_certified() && !mesh.is_exact &&
         2 * *std::max_element(mesh.cells.extents.begin(), mesh.cells.extents.end()) < meshing::most_cells;
}

}  // namespace

std::int64_t SurfaceMesh::euler_characteristic() const {
  std::int64_t sum = 0;
  for (const MeshComponent& component : topology.components) sum += component.euler_characteristic();
  return sum;
}

bool SurfaceMesh::has_certified_part() const {
  return is_certified() || std::any_of(topology.components.begin(), topology.components.end(),
                                       [](const MeshComponent& component) { return component.is_certified; });
}

MeshFaceState SurfaceMesh::state_of(std::size_t triangle) const {
  const auto cell = static_cast<std::size_t>(cell_of[triangle]);
  if (is_of_values) return is_wrong[cell] ? MeshFaceState::wrong_signs : MeshFaceState::computed;
  if (is_uncertain[cell]) return MeshFaceState::uncertain_cell;
  const bool is_of_certified = topology.components[static_cast<std::size_t>(topology.component[triangle])].is_certified;
  return is_of_certified ? MeshFaceState::certified : MeshFaceState::certain_cell;
}

SurfaceMesh mesh(const Graph& graph, const Box& box, const MeshOptions& options, const Target& target) {
  const auto start = std::chrono::steady_clock::now();
  check_mesh(options);
  SurfaceMesh found = mesh_with_cells(graph, box, options.cell, options, target);
  std::int64_t boxes = found.boxes;
  for (int halved = 1; halved <= options.refinements && may_be_refined(found); ++halved) {
    const double cell = *std::max_element(found.cells.step.begin(), found.cells.step.end()) / 2.0;
    found = mesh_with_cells(graph, box, cell, options, target);
    found.refinements = halved;
    boxes += found.boxes;
  }
  found.boxes = boxes;
  found.seconds = seconds_since(start);
  return found;
}

SurfaceMesh mesh_of_values(const SurfaceCells& cells, std::span<const double> values) {
  if (values.size() != cells.nodes.size() || cells.values.size() != cells.nodes.size())
    throw InvalidArgument(fmt::format("mesh: {} values for {} nodes, which have {} of their own", values.size(),
                                      cells.nodes.size(), cells.values.size()));
  SurfaceMesh mesh;
  mesh.cells = cells;
  mesh.cells.values.assign(values.begin(), values.end());
  const Polygons polygons = meshing::polygons_of(mesh.cells, values);
  take_polygons(mesh, polygons, meshing::interpolated(polygons, values));
  mesh.is_of_values = true;
  mesh.is_uncertain.assign(cells.cells.size(), true);
  mesh.uncertain_cells = static_cast<std::int64_t>(cells.cells.size());
  for (const auto& corners : cells.corners)
    mesh.is_wrong.push_back(std::any_of(corners.begin(), corners.end(), [&](std::int32_t node) {
      const auto i = static_cast<std::size_t>(node);
      return (values[i] < 0.0) != (cells.values[i] < 0.0);
    }));
  mesh.distance = std::numeric_limits<double>::infinity();
  return mesh;
}

}  // namespace driftbound
