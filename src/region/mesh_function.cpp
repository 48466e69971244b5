#include "region/mesh_function.hpp"

#include <algorithm>
#include <cmath>

namespace driftbound {

std::array<double, 3> SurfaceCells::point(std::size_t node) const {
  std::array<double, 3> x{};
  for (std::size_t c = 0; c < 3; ++c) x[c] = lower[c] + static_cast<double>(nodes[node][c]) * step[c];
  return x;
}

namespace meshing {
namespace {

std::int64_t key_of(const Index& cell, const std::array<std::int64_t, 3>& extents) {
  return (cell[0] * extents[1] + cell[1]) * extents[2] + cell[2];
}

Index corner_of(const Index& cell, std::size_t corner) {
  return {cell[0] + static_cast<std::int64_t>(corner & 1), cell[1] + static_cast<std::int64_t>(corner >> 1 & 1),
          cell[2] + static_cast<std::int64_t>(corner >> 2 & 1)};
}

/// The piecewise linear function at a point of a cell, given in whole parts of its sides: the value at the lowest
/// corner and steps along the path of the tetrahedron that the point lies in.
/// Guarantee: within 2^-49 times `size` of the exact value, where `size` is the largest |value| at the corners
double value_in_cell(const std::array<double, 8>& at_corner, const std::array<double, 3>& place) {
  std::array<std::size_t, 3> order = {0, 1, 2};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return place[a] > place[b]; });
  // A mean of corners, with weights that are exact.
  double value = (1.0 - place[order[0]]) * at_corner[0];
  std::size_t corner = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    corner |= std::size_t{1} << order[i];
    const double weight = place[order[i]] - (i < 2 ? place[order[i + 1]] : 0.0);
    value += weight * at_corner[corner];
  }
  return value;
}

/// Whether a tetrahedron has a point within [lower, upper] of its cell: along its path coordinates do not grow.
bool touches(const Tetrahedron& tetrahedron, const std::array<double, 3>& lower, const std::array<double, 3>& upper) {
  const auto& [a, b, c] = tetrahedron.axes;
  return upper[a] >= lower[b] && upper[a] >= lower[c] && upper[b] >= lower[c];
}

}  // namespace

void number_nodes(SurfaceCells& cells) {
  const std::array<std::int64_t, 3> nodes = {cells.extents[0] + 1, cells.extents[1] + 1, cells.extents[2] + 1};
  std::vector<std::int64_t> keys;
  keys.reserve(8 * cells.cells.size());
  for (const Index& cell : cells.cells)
    for (std::size_t corner = 0; corner < 8; ++corner) keys.push_back(key_of(corner_of(cell, corner), nodes));
  std::vector<std::int64_t> unique = keys;
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  cells.nodes.clear();
  for (const std::int64_t key : unique)
    cells.nodes.push_back({key / nodes[2] / nodes[1], key / nodes[2] % nodes[1], key % nodes[2]});
  cells.corners.assign(cells.cells.size(), {});
  for (std::size_t i = 0; i < keys.size(); ++i)
    cells.corners[i / 8][i % 8] =
        static_cast<std::int32_t>(std::lower_bound(unique.begin(), unique.end(), keys[i]) - unique.begin());
}

CellIndex::CellIndex(const SurfaceCells& cells) : extents_(cells.extents) {
  places_.reserve(cells.cells.size());
  for (std::size_t i = 0; i < cells.cells.size(); ++i)
    places_[key_of(cells.cells[i], extents_)] = static_cast<std::int32_t>(i);
}

std::int32_t CellIndex::at(const Index& cell) const {
  for (std::size_t c = 0; c < 3; ++c)
    if (cell[c] < 0 || cell[c] >= extents_[c]) return -1;
  const auto found = places_.find(key_of(cell, extents_));
  return found == places_.end() ? -1 : found->second;
}

int sign_over(const SurfaceCells& cells, std::span<const double> values, const Part& part) {
  std::array<double, 8> at_corner{};
  double size = 0.0;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    at_corner[corner] = values[static_cast<std::size_t>(cells.corners[static_cast<std::size_t>(part.cell)][corner])];
    size = std::fmax(size, std::fabs(at_corner[corner]));
  }
  const double margin = 0x1p-48 * size + 0x1p-1000;
  const double side = std::ldexp(1.0, -part.level);
  int sign = 0;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    std::array<double, 3> place{};
    for (std::size_t c = 0; c < 3; ++c) place[c] = side * (part.place[c] + static_cast<int>(corner >> c & 1));
    const double value = value_in_cell(at_corner, place);
    const int here = value > margin ? 1 : value < -margin ? -1 : 0;
    if (here == 0 || (corner > 0 && here != sign)) return 0;
    sign = here;
  }
  return sign;
}

void gradients_around(const SurfaceCells& cells, const CellIndex& index, std::span<const double> values,
                      const Part& part, std::vector<std::array<double, 3>>& gradients) {
  gradients.clear();
  const Index& cell = cells.cells[static_cast<std::size_t>(part.cell)];
  const double side = std::ldexp(1.0, -part.level);
  std::array<int, 3> from{}, to{};
  for (std::size_t c = 0; c < 3; ++c) {
    from[c] = part.place[c] == 0 ? -1 : 0;
    to[c] = part.place[c] == part.last() ? 1 : 0;
  }
  for (int i = from[0]; i <= to[0]; ++i)
    for (int j = from[1]; j <= to[1]; ++j)
      for (int k = from[2]; k <= to[2]; ++k) {
        const std::array<int, 3> offset = {i, j, k};
        const bool is_own = i == 0 && j == 0 && k == 0;
        const std::int32_t neighbour = is_own ? part.cell : index.at({cell[0] + i, cell[1] + j, cell[2] + k});
        if (neighbour < 0) continue;
        std::array<double, 3> lower{}, upper{};
        for (std::size_t c = 0; c < 3; ++c) {
          lower[c] = offset[c] < 0 ? 1.0 : offset[c] > 0 ? 0.0 : side * part.place[c];
          upper[c] = offset[c] == 0 ? lower[c] + side : lower[c];
        }
        const auto& corners = cells.corners[static_cast<std::size_t>(neighbour)];
        for (const Tetrahedron& tetrahedron : tetrahedra) {
          if (!touches(tetrahedron, lower, upper)) continue;
          std::array<double, 3> gradient{};
          for (std::size_t s = 0; s < 3; ++s) {
            const double before = values[static_cast<std::size_t>(corners[tetrahedron.corners[s]])];
            const double after = values[static_cast<std::size_t>(corners[tetrahedron.corners[s + 1]])];
            gradient[tetrahedron.axes[s]] = (after - before) / cells.step[tetrahedron.axes[s]];
          }
          gradients.push_back(gradient);
        }
      }
}

}  // namespace meshing
}  // namespace driftbound
