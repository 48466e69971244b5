#pragma once

#include <cstdint>

#include "driftbound/region/mesh.hpp"

namespace driftbound::analysis {

/// In what two surfaces on the same cells differ.
struct SurfaceDifference {
  std::int64_t cells = 0;               ///< in which the other one has pieces of other numbers, or with other holes
  std::int64_t false_components = 0;    ///< of the other one, each matched with no component of the first
  std::int64_t missing_components = 0;  ///< of the first one, in whose cells the other one has none
};

/// A component of `surface` is matched with the component of `other` that passes most of its cells.
SurfaceDifference difference_of(const SurfaceMesh& surface, const SurfaceMesh& other);

}  // namespace driftbound::analysis
