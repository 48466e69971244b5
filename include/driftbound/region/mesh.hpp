#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound {

// A mesh of the surface f = 0 of a network whose topology is that of the exact surface.

struct MeshOptions {
  double iso = 0.0;     ///< f is the scalar of the network minus this
  double cell = 0.0;    ///< longest side of a cell of the mesh; 0: a 128th of the longest side of the box
  int depth = 6;        ///< how often the search for a certificate may cut a cell in halves
  int refinements = 0;  ///< how often all cells are halved, and meshed anew, where some stay uncertain
  int max_bits = 4096;  ///< the highest precision tried for a sign, as SignOptions::max_bits
  int threads = 1;
  /// Called as the work goes on with cells done and cells known so far; false ends it.
  std::function<bool(std::int64_t, std::int64_t)> progress;
};

/// The cells that the surface may pass, on a lattice of cells with corners at lower + i step, exactly.
/// Corners of cells are given by their places in `nodes`; bit c of a corner's number says that it is the upper one in
/// coordinate c.
struct SurfaceCells {
  std::array<double, 3> lower{}, step{};
  std::array<std::int64_t, 3> extents{};             ///< cells in every coordinate
  std::vector<std::array<std::int64_t, 3>> cells;    ///< lowest corner of each, in steps; ascending
  std::vector<std::array<std::int64_t, 3>> nodes;    ///< corners of these cells, in steps; ascending
  std::vector<std::array<std::int32_t, 8>> corners;  ///< of each cell
  /// The function g that the mesh is made of, at every node: near f, with the certified sign of f; where f is 0,
  /// positive; where its sign is undecided, any.
  std::vector<double> values;

  std::array<double, 3> point(std::size_t node) const;
};

/// A connected part of the mesh.
struct MeshComponent {
  std::int64_t vertices = 0, edges = 0, triangles = 0;
  std::int64_t boundary_loops = 0;  ///< closed curves on the sides of the box, where the surface leaves it
  bool is_certified = false;        ///< whether no uncertain cell is connected to its cells

  std::int64_t euler_characteristic() const { return vertices - edges + triangles; }
  std::int64_t genus() const { return (2 - euler_characteristic() - boundary_loops) / 2; }
};

/// What a mesh is as a complex, counted on its triangles.
struct MeshTopology {
  std::vector<MeshComponent> components;  ///< in the order of their first triangles
  std::vector<std::int32_t> component;    ///< of each triangle
  std::int64_t boundary_edges = 0;        ///< edges of one triangle; all others have two, which pass them in turn
};

/// What is known of a triangle, as files say it.
enum class MeshFaceState : std::uint8_t {
  certified,     ///< of a certified component
  certain_cell,  ///< in a cell that is certain, of a component that is not certified
  uncertain_cell,
  computed,    ///< of other values, in a cell where they have the signs of f
  wrong_signs  ///< of other values, in a cell where they have not
};

struct SurfaceMesh {
  std::vector<std::array<double, 3>> vertices;
  /// Every vertex lies this near a zero of f on the edge of a cell, or to the corner of the exact surface that it is;
  /// infinite where no sign at an end was decided.
  std::vector<double> vertex_distances;
  std::vector<std::array<std::int32_t, 3>> triangles;  ///< counter-clockwise seen from where f > 0
  std::vector<std::int32_t> cell_of;                   ///< each triangle's place in cells.cells
  MeshTopology topology;

  Box box;  ///< what was meshed: the box asked for, grown by at most 2^-20 of its sides so that all corners are exact and seldom zeros
  SurfaceCells cells;
  std::vector<bool> is_uncertain;  ///< of each cell; all where the mesh is of other values
  std::int64_t uncertain_cells = 0;
  /// Of each cell of a mesh of other values: whether one of them has another sign than f. Else empty.
  std::vector<bool> is_wrong;
  /// No point of the mesh is farther than this from the surface, and no point of the surface farther than this from the
  /// mesh, both within the certified part. 0 where all cells are certain and the mesh is empty; infinite where cells are
  /// uncertain and no component is certified.
  double distance = 0.0;
  std::int64_t undecided_nodes = 0;  ///< nodes where no precision decides the sign of f
  int refinements = 0;               ///< how often cells were halved, as larger ones were uncertain
  std::int64_t boxes = 0;            ///< over which f was enclosed
  double seconds = 0.0;

  /// Whether the network is linear in pieces, so that the mesh is its surface, cut at the sides of cells; but for the
  /// rounding of vertices, which `vertex_distances` bounds.
  bool is_exact = false;
  bool is_of_values = false;  ///< made by mesh_of_values(): nothing is certified

  bool is_certified() const { return !is_of_values && uncertain_cells == 0; }
  bool has_certified_part() const;
  MeshFaceState state_of(std::size_t triangle) const;
  std::int64_t euler_characteristic() const;
};

/// Meshes {f = 0} within a box of three coordinates. Of a network that is linear in pieces (affine maps, rectifiers,
/// largest and smallest values) the mesh is the surface itself: its polygons on all linear pieces in cells in which f may
/// be 0, with vertices rounded to double. A cell is uncertain where f is 0 at a corner of pieces.
/// Of other networks, and where the pieces in one cell have more than 4,096 corners: marching tetrahedra over the
/// cells in which f may be 0, six a cell along its diagonal, so that no case is ambiguous. A cell is certain where
/// each point of it has a direction in which both f and the piecewise linear function of the mesh increase,
/// whatever generalised gradient f has there (at the sides of the box: a direction along them); parts of the cell
/// may have directions of their own. Where all cells are certain, an isotopy of the box takes the mesh to the exact
/// surface; else this holds for all components whose cells are not connected to an uncertain one. The mesh is
/// closed but for curves on the sides of the box, where the surface leaves it, and does not depend on the number of
/// threads. All cells are of one size; where some are uncertain, cells of half the size are tried as often as
/// `refinements` says, and until a side would have more than 4,096 cells. Not where the mesh is exact: smaller cells do
/// not help there.
/// Guarantee: proven
/// Throws:    InvalidArgument for a network of another number of coordinates than three, for an empty or reversed box,
///            one with bounds that are not finite or beyond the largest float32 number, one too small for its distance
///            from 0, for options out of range, and where most of many cells tell hardly more of the values than the
///            whole box; Interrupted; what RegionEvaluator and SignField throw
/// Source:    docs/theory.md T-143, T-160 to T-165
SurfaceMesh mesh(const Graph& graph, const Box& box, const MeshOptions& options = {}, const Target& target = {});

/// The complex that triangles are, by its edges. `is_certified` is left false.
/// Throws:    InvalidArgument for an edge of more than two triangles
MeshTopology topology_of(std::size_t vertices, std::span<const std::array<std::int32_t, 3>> triangles);

/// The mesh that other values at the nodes of the same cells give, its vertices where these values interpolate to 0:
/// what signs of float32 make of the surface. Distances are infinite, no cell is certain and no component certified.
SurfaceMesh mesh_of_values(const SurfaceCells& cells, std::span<const double> values);

/// Writes a mesh as its name ends: .ply (with the certified distance of every vertex, and of every triangle its
/// component, whether that is certified, and its state), .obj (components and states as groups), .vtp (as .ply), .stl
/// (binary, float32). The file is whole or not there.
/// Throws:    InvalidArgument for another ending, FileError
void write_mesh(const SurfaceMesh& mesh, const std::filesystem::path& file);
/// The same of the uncertain cells alone, as boxes.
void write_uncertain_cells(const SurfaceMesh& mesh, const std::filesystem::path& file);

}  // namespace driftbound
