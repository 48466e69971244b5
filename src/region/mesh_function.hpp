#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "driftbound/region/mesh.hpp"
#include "region/mesh_lattice.hpp"

namespace driftbound::meshing {

/// The six tetrahedra of a cell, by the corners that they pass from the lowest to the highest one, one coordinate after
/// the other. The first three have positive orientation.
struct Tetrahedron {
  std::array<std::uint8_t, 4> corners;
  std::array<std::uint8_t, 3> axes;  ///< along which its path goes
};
inline constexpr std::array<Tetrahedron, 6> tetrahedra = {{{{0, 1, 3, 7}, {0, 1, 2}},
                                                           {{0, 2, 6, 7}, {1, 2, 0}},
                                                           {{0, 4, 5, 7}, {2, 0, 1}},
                                                           {{0, 2, 3, 7}, {1, 0, 2}},
                                                           {{0, 4, 6, 7}, {2, 1, 0}},
                                                           {{0, 1, 5, 7}, {0, 2, 1}}}};

/// Lists corners of cells once each.
void number_nodes(SurfaceCells& cells);

/// The places of cells by their lowest corners.
class CellIndex {
public:
  explicit CellIndex(const SurfaceCells& cells);
  /// -1: the surface does not pass it
  std::int32_t at(const Index& cell) const;

private:
  std::array<std::int64_t, 3> extents_;
  std::unordered_map<std::int64_t, std::int32_t> places_;
};

/// A part of a cell: [lower, upper] of it, in 2^-level of its sides.
struct Part {
  std::int32_t cell = 0;
  int level = 0;
  std::array<std::int16_t, 3> place{};
  double rate = 0.0;  ///< certified of a larger part that holds it; 0: none
  std::int16_t last() const { return static_cast<std::int16_t>((1 << level) - 1); }
};

/// -1, 1: the sign that the piecewise linear function has on all of a part, where it is not 0; 0: none, or not certain.
int sign_over(const SurfaceCells& cells, std::span<const double> values, const Part& part);

/// Gradients of the piecewise linear function on the tetrahedra that touch a part of a cell, in cells in which f may be
/// 0. Quotients of differences, rounded: each component has a relative error of at most 2^-51.
/// Source:    docs/theory.md T-161
void gradients_around(const SurfaceCells& cells, const CellIndex& index, std::span<const double> values,
                      const Part& part, std::vector<std::array<double, 3>>& gradients);

}  // namespace driftbound::meshing
