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

/// Evaluates f at the nodes. Returns bounds of how far values are from f.
std::vector<double> evaluate_nodes(SurfaceMesh& mesh, const SignField& field) {
  SurfaceCells& cells = mesh.cells;
  std::vector<double> points;
  points.reserve(3 * cells.nodes.size());
  for (std::size_t i = 0; i < cells.nodes.size(); ++i)
    for (const double x : cells.point(i)) points.push_back(x);
  std::vector<PointSign> signs(cells.nodes.size());
  field.signs(points.data(), static_cast<std::int64_t>(signs.size()), 3, 1, signs);
  std::vector<double> bounds;
  for (const PointSign& found : signs) {
    cells.values.push_back(value_with_sign(found));
    bounds.push_back((found.bound + std::fabs(cells.values.back() - found.value)) * (1.0 + 0x1p-50));
    if (found.sign == Sign::undecided) ++mesh.undecided_nodes;
  }
  return bounds;
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

/// How far vertices are from where the piecewise linear function is 0, at most.
double largest_shift(const SurfaceCells& cells, const Polygons& polygons, const EdgePoints& points,
                     const EdgePoints& of_function) {
  double largest = 0.0;
  for (std::size_t i = 0; i < polygons.edges.size(); ++i)
    largest = std::fmax(
        largest, (std::fabs(points.shares[i] - of_function.shares[i]) + 0x1p-19) * length_of(cells, polygons.edges[i]));
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

/// Source:    docs/theory.md T-163
double distance_of(const SurfaceMesh& mesh, const CellIndex& index, const Certificate& certificate,
                   const std::vector<bool>& is_left_out, double shift) {
  if (mesh.triangles.empty()) return 0.0;
  const SurfaceCells& cells = mesh.cells;
  double slowest = std::numeric_limits<double>::infinity(), largest = 0.0;
  for (std::size_t i = 0; i < cells.cells.size(); ++i)
    if (!is_left_out[i]) slowest = std::fmin(slowest, certificate.rate[i]);
  for (std::size_t i = 0; i < cells.cells.size(); ++i) {
    if (is_left_out[i] || !changes_sign(cells, i)) continue;
    largest = std::fmax(largest, way_from(cells, index, certificate, i, slowest));
  }
  return (largest + shift) * (1.0 + 0x1p-48);
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
}

}  // namespace

std::int64_t SurfaceMesh::euler_characteristic() const {
  std::int64_t sum = 0;
  for (const MeshComponent& component : topology.components) sum += component.euler_characteristic();
  return sum;
}

SurfaceMesh mesh(const Graph& graph, const Box& box, const MeshOptions& options, const Target& target) {
  const auto start = std::chrono::steady_clock::now();
  check_mesh(options);
  const Lattice lattice = meshing::lattice_of(box, options.cell);
  const auto report = [&](std::int64_t done, std::int64_t known) {
    if (options.progress && !options.progress(done, known)) throw Interrupted("interrupted");
  };
  SurfaceMesh mesh;
  mesh.box = lattice.box();
  RegionOptions of_region{
      .iso = options.iso, .gradients = false, .rounding = false, .symbols = 0, .threads = options.threads};
  const RegionEvaluator values(graph, target, of_region);
  if (values.dimension() != 3)
    throw InvalidArgument(fmt::format("{}: a mesh needs a network of three coordinates, this one has {}", graph.source,
                                      values.dimension()));
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
  const std::vector<double> bounds = evaluate_nodes(mesh, field);
  mesh.boxes = found.boxes;
  const Graph scalar = implicit::scalar_graph(graph, implicit::checked_target(graph, &target), options.iso);
  if (const auto network = region::PieceNetwork::of(scalar)) {
    if (auto surface = meshing::surface_in_pieces(cells, *network, options.threads, report)) {
      take_pieces(mesh, std::move(*surface));
      mesh.seconds = seconds_since(start);
      return mesh;
    }
  }

  of_region.gradients = true;
  const CellIndex index(cells);
  const Certificate certificate = meshing::certify_cells(
      lattice, cells, index, bounds, RegionEvaluator(graph, target, of_region),
      meshing::TurnedEvaluators(graph, target, of_region), options.depth, options.threads, report);
  mesh.is_uncertain = certificate.is_uncertain;
  mesh.uncertain_cells = std::count(mesh.is_uncertain.begin(), mesh.is_uncertain.end(), true);
  mesh.boxes += certificate.boxes;

  const Polygons polygons = meshing::polygons_of(cells, cells.values);
  EdgePoints points = meshing::bracketed(lattice, cells, polygons, field);
  take_polygons(mesh, polygons, points);
  const std::vector<bool> is_left_out = connected_to_uncertain(mesh, index);
  certify_components(mesh, is_left_out);
  const double shift = largest_shift(cells, polygons, points, meshing::interpolated(polygons, cells.values));
  mesh.distance = distance_of(mesh, index, certificate, is_left_out, shift);
  mesh.seconds = seconds_since(start);
  return mesh;
}

SurfaceMesh mesh_of_values(const SurfaceCells& cells, std::span<const double> values) {
  if (values.size() != cells.nodes.size())
    throw InvalidArgument(fmt::format("mesh: {} values for {} nodes", values.size(), cells.nodes.size()));
  SurfaceMesh mesh;
  mesh.cells = cells;
  mesh.cells.values.assign(values.begin(), values.end());
  const Polygons polygons = meshing::polygons_of(mesh.cells, values);
  take_polygons(mesh, polygons, meshing::interpolated(polygons, values));
  mesh.is_uncertain.assign(cells.cells.size(), false);
  mesh.distance = std::numeric_limits<double>::infinity();
  return mesh;
}

}  // namespace driftbound
