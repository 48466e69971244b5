#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "driftbound/region/range.hpp"
#include "region/mesh_lattice.hpp"

namespace driftbound::meshing {

/// Reports cells done and known; throws Interrupted where the caller asks to stop.
using Report = std::function<void(std::int64_t, std::int64_t)>;

struct FoundCells {
  std::vector<Index> cells;  ///< over which f is not of one certain sign, ascending
  std::int64_t boxes = 0;    ///< over which f was enclosed
};

/// Cuts the lattice in halves until f has one sign over a block, or the block is one cell.
/// Source:    docs/theory.md T-150, T-152
FoundCells cells_with_surface(const Lattice& lattice, const RegionEvaluator& evaluator, const Report& report);

}  // namespace driftbound::meshing
