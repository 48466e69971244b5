#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "driftbound/region/mesh.hpp"
#include "region/mesh_lattice.hpp"
#include "region/mesh_search.hpp"
#include "region/piece_network.hpp"

namespace driftbound::meshing {

/// The exact surface of a network that is linear in pieces, cut at the sides of cells.
struct PieceSurface {
  std::vector<std::array<double, 3>> vertices;
  std::vector<double> radii;  ///< how far each is from where the exact surface has it, at most
  std::vector<std::array<std::int32_t, 3>> triangles;
  std::vector<std::int32_t> cell_of;
  std::vector<bool> is_uncertain;  ///< of each cell: f is 0 where pieces meet in a corner
};

/// Nothing where the pieces in some cell have more than 4,096 corners.
/// Guarantee: proven
/// Source:    docs/theory.md T-164, T-165
std::optional<PieceSurface> surface_in_pieces(const SurfaceCells& cells, const region::PieceNetwork& network,
                                              int threads, const Report& report);

}  // namespace driftbound::meshing
