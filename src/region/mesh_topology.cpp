#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/region/mesh.hpp"

namespace driftbound {
namespace {

/// Sets of numbers that are merged.
class MergedSets {
public:
  explicit MergedSets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }

  std::size_t of(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  /// Returns whether they were two.
  bool merge(std::size_t x, std::size_t y) {
    x = of(x);
    y = of(y);
    parent_[std::max(x, y)] = std::min(x, y);
    return x != y;
  }

private:
  std::vector<std::size_t> parent_;
};

/// An edge as triangles pass it: from its lower vertex to the higher one, or back.
struct PassedEdge {
  std::int32_t lower, higher;
  bool is_back;
  bool operator<(const PassedEdge& other) const {
    return lower != other.lower ? lower < other.lower : higher < other.higher;
  }
};

std::vector<PassedEdge> edges_of(std::span<const std::array<std::int32_t, 3>> triangles) {
  std::vector<PassedEdge> edges;
  edges.reserve(3 * triangles.size());
  for (const auto& triangle : triangles)
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int32_t from = triangle[i], to = triangle[(i + 1) % 3];
      edges.push_back({std::min(from, to), std::max(from, to), from > to});
    }
  std::sort(edges.begin(), edges.end());
  return edges;
}

}  // namespace

MeshTopology topology_of(std::size_t vertices, std::span<const std::array<std::int32_t, 3>> triangles) {
  const auto at = [](std::int32_t vertex) { return static_cast<std::size_t>(vertex); };
  MergedSets parts(vertices), loops(vertices);
  for (const auto& triangle : triangles) {
    parts.merge(at(triangle[0]), at(triangle[1]));
    parts.merge(at(triangle[0]), at(triangle[2]));
  }
  MeshTopology topology;
  std::vector<std::int32_t> place(vertices, -1);  // of the component of a set
  for (const auto& triangle : triangles) {
    std::int32_t& number = place[parts.of(at(triangle[0]))];
    if (number < 0) {
      number = static_cast<std::int32_t>(topology.components.size());
      topology.components.emplace_back();
    }
    topology.component.push_back(number);
    ++topology.components[at(number)].triangles;
  }
  const auto component_of = [&](std::int32_t vertex) -> MeshComponent& {
    return topology.components[at(place[parts.of(at(vertex))])];
  };
  std::vector<bool> is_used(vertices, false);
  for (const auto& triangle : triangles)
    for (const std::int32_t vertex : triangle) {
      if (!is_used[at(vertex)]) ++component_of(vertex).vertices;
      is_used[at(vertex)] = true;
    }
  const std::vector<PassedEdge> edges = edges_of(triangles);
  for (std::size_t first = 0; first < edges.size();) {
    std::size_t last = first + 1;
    while (last < edges.size() && !(edges[first] < edges[last])) ++last;
    const bool is_passed_in_turn = last - first == 2 && edges[first].is_back != edges[first + 1].is_back;
    if (last - first > 1 && !is_passed_in_turn)
      throw InvalidArgument("mesh: the edge of vertices " + std::to_string(edges[first].lower) + " and " +
                            std::to_string(edges[first].higher) +
                            " lies in more than two triangles, or in two that have opposite orientations");
    MeshComponent& component = component_of(edges[first].lower);
    ++component.edges;
    if (last - first == 1) {
      ++topology.boundary_edges;
      // A curve of n edges has n vertices: all but one edge of it merge two.
      if (!loops.merge(at(edges[first].lower), at(edges[first].higher))) ++component.boundary_loops;
    }
    first = last;
  }
  return topology;
}

}  // namespace driftbound
