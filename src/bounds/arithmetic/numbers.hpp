#pragma once

// A constant and a conversion that many bounds use.

#include <cstddef>
#include <cstdint>
#include <limits>

namespace driftbound::bounds {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// An index or extent of a shape as an index of elements.
inline std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace driftbound::bounds
