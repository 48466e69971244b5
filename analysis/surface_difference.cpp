#include "analysis/surface_difference.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace driftbound::analysis {
namespace {

using Triangle = std::array<std::int32_t, 3>;

/// The triangles of a mesh by their cells.
class TrianglesOfCells {
public:
  explicit TrianglesOfCells(const SurfaceMesh& mesh) : mesh_(mesh), first_(mesh.cells.cells.size() + 1, 0) {
    for (const std::int32_t cell : mesh.cell_of) ++first_[static_cast<std::size_t>(cell) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    triangles_.resize(mesh.triangles.size());
    for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
      triangles_[next[static_cast<std::size_t>(mesh.cell_of[t])]++] = t;
  }

  /// Characteristic and border curves of every piece of the surface in a cell, ascending.
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces(std::size_t cell) const {
    std::vector<Triangle> triangles;
    std::vector<std::int32_t> vertices;
    for (std::size_t i = first_[cell]; i < first_[cell + 1]; ++i) {
      triangles.push_back(mesh_.triangles[triangles_[i]]);
      vertices.insert(vertices.end(), triangles.back().begin(), triangles.back().end());
    }
    std::sort(vertices.begin(), vertices.end());
    vertices.erase(std::unique(vertices.begin(), vertices.end()), vertices.end());
    for (Triangle& triangle : triangles)
      for (std::int32_t& vertex : triangle)
        vertex =
            static_cast<std::int32_t>(std::lower_bound(vertices.begin(), vertices.end(), vertex) - vertices.begin());
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const MeshComponent& piece : topology_of(vertices.size(), triangles).components)
      found.emplace_back(piece.euler_characteristic(), piece.boundary_loops);
    std::sort(found.begin(), found.end());
    return found;
  }

  /// That pass a cell.
  std::vector<std::int32_t> components(std::size_t cell) const {
    std::vector<std::int32_t> found;
    for (std::size_t i = first_[cell]; i < first_[cell + 1]; ++i)
      found.push_back(mesh_.topology.component[triangles_[i]]);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

private:
  const SurfaceMesh& mesh_;
  std::vector<std::size_t> first_, triangles_;
};

}  // namespace

SurfaceDifference difference_of(const SurfaceMesh& surface, const SurfaceMesh& other) {
  const TrianglesOfCells ours(surface), theirs(other);
  SurfaceDifference difference;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> shared_cells;  // by components of both
  for (std::size_t cell = 0; cell < surface.cells.cells.size(); ++cell) {
    if (ours.pieces(cell) != theirs.pieces(cell)) ++difference.cells;
    for (const std::int32_t a : ours.components(cell))
      for (const std::int32_t b : theirs.components(cell)) ++shared_cells[{a, b}];
  }
  std::vector<std::pair<std::int64_t, std::int32_t>> match(surface.topology.components.size(), {0, -1});
  for (const auto& [components, cells] : shared_cells)
    if (auto& best = match[static_cast<std::size_t>(components.first)]; cells > best.first)
      best = {cells, components.second};
  std::vector<bool> is_matched(other.topology.components.size(), false);
  for (const auto& [cells, component] : match) {
    if (component < 0)
      ++difference.missing_components;
    else
      is_matched[static_cast<std::size_t>(component)] = true;
  }
  difference.false_components = std::count(is_matched.begin(), is_matched.end(), false);
  return difference;
}

}  // namespace driftbound::analysis
