#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// How a node's products read their operands, and whether numbers below the normal range may count as 0 in them.
struct ProductReading {
  Reading operands = Reading::as_declared;
  bool may_flush = true;  ///< where the arithmetic allows it

  bool operator==(const ProductReading&) const = default;
  auto operator<=>(const ProductReading&) const = default;
};

/// By node of the original graph, none where it has no products; empty: all as declared.
using Readings = std::vector<std::optional<ProductReading>>;

/// Whether the operands of a product that is read so pass through roundings of their own.
inline bool is_rounded(Reading reading) {
  return reading != Reading::as_given && reading != Reading::either_way;
}

/// Whether a recorded run decides how its products read: a matrix unit of narrower operands than its sums may be
/// bypassed.
inline bool leaves_readings_open(const Machine& machine) {
  return machine.tensor_core.has_value() && machine.input != machine.accumulator;
}

}  // namespace driftbound::bounds
