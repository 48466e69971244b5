#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// How the matrix products of a node read their operands, and whether they may flush subnormal numbers to 0.
struct ProductReading {
  Reading operands = Reading::as_declared;
  bool may_flush = true;  ///< whether products may flush, provided that the arithmetic allows it

  bool operator==(const ProductReading&) const = default;
  auto operator<=>(const ProductReading&) const = default;
};

/// By node of the original graph: the reading of its products; no entry if it has none. An empty vector: all products
/// read as declared.
using Readings = std::vector<std::optional<ProductReading>>;

/// Whether a product with this reading rounds its operands.
inline bool is_rounded(Reading reading) {
  return reading != Reading::as_given && reading != Reading::either_way;
}

/// Whether the arithmetic leaves it undetermined if products round their operands, so that the recorded run decides.
/// This is so for a matrix unit whose input format differs from the accumulator, as a program may bypass it.
inline bool leaves_readings_open(const Machine& machine) {
  return machine.tensor_core.has_value() && machine.input != machine.accumulator;
}

}  // namespace driftbound::bounds
