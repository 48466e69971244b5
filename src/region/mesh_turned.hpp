#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/region/range.hpp"

namespace driftbound::meshing {

/// Three vectors at right angles with small whole coordinates.
struct Basis {
  std::array<std::array<int, 3>, 3> vectors;
};

/// Those that hold the diagonals of the sides of a cube and its own.
inline constexpr std::array<Basis, 7> turned_bases = {{{{{{1, 1, 0}, {1, -1, 0}, {0, 0, 1}}}},
                                                       {{{{1, 0, 1}, {1, 0, -1}, {0, 1, 0}}}},
                                                       {{{{0, 1, 1}, {0, 1, -1}, {1, 0, 0}}}},
                                                       {{{{1, 1, 1}, {1, -1, 0}, {1, 1, -2}}}},
                                                       {{{{-1, 1, 1}, {1, 1, 0}, {-1, 1, -2}}}},
                                                       {{{{1, -1, 1}, {1, 1, 0}, {1, -1, -2}}}},
                                                       {{{{1, 1, -1}, {1, -1, 0}, {1, 1, 2}}}}}};

/// The graph of u -> f(u_1 b_1 + u_2 b_2 + u_3 b_3), whose gradient has the components <∂f, b_j>.
Graph turned_graph(const Graph& graph, const Basis& basis);

/// Of the turned bases the one with a vector along which all gradients grow most evenly, by float64; none without any.
std::optional<std::size_t> basis_for(std::span<const std::array<double, 3>> gradients);

/// Encloses f over a box in the coordinates of a turned basis, over a box of theirs that holds it.
class TurnedEvaluators {
public:
  TurnedEvaluators(const Graph& graph, const Target& target, const RegionOptions& options);
  Ranges ranges(std::size_t basis, const Boxes& boxes) const;

private:
  std::vector<RegionEvaluator> evaluators_;
};

}  // namespace driftbound::meshing
