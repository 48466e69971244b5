#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/region/mesh.hpp"
#include "region/mesh_lattice.hpp"

namespace driftbound::meshing {

/// An edge of a tetrahedron on which the piecewise linear function changes its sign.
struct CrossedEdge {
  std::int32_t negative = 0, other = 0;  ///< its nodes
};

/// Triangles whose corners are places of edges.
struct Polygons {
  std::vector<CrossedEdge> edges;
  std::vector<std::array<std::int32_t, 3>> triangles;
  std::vector<std::int32_t> cell_of;
};

/// Cuts every tetrahedron of every cell between its negative and its other corners.
/// Source:    docs/theory.md T-162
Polygons polygons_of(const SurfaceCells& cells, std::span<const double> values);

/// Points on edges, as shares of them counted from the negative node.
struct EdgePoints {
  std::vector<double> shares;
  std::vector<double> radii;  ///< of brackets around a zero of f, as shares; infinite where there is none
};

/// Where the values at the nodes interpolate to 0, at most one millionth of the edge from its ends.
EdgePoints interpolated(const Polygons& polygons, std::span<const double> values);

/// Brackets of zeros of f on the edges, by signs of f at points of them that are doubles.
EdgePoints bracketed(const Lattice& lattice, const SurfaceCells& cells, const Polygons& polygons,
                     const SignField& field);

/// The points themselves, to the last bits where the shares are those of bracketed().
std::vector<std::array<double, 3>> points_on_edges(const SurfaceCells& cells, const Polygons& polygons,
                                                   std::span<const double> shares);

/// Upper bound of the length of an edge.
double length_of(const SurfaceCells& cells, const CrossedEdge& edge);

}  // namespace driftbound::meshing
