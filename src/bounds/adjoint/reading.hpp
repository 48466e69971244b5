#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

struct Machine;
struct RecordedBlock;
struct Setting;
class Network;
class Weights;

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
bool is_rounded(Reading reading);

/// Whether a recorded run decides how its products read: a matrix unit of narrower operands than its sums may be
/// bypassed.
bool leaves_readings_open(const Machine& machine);

/// How the nodes of a recorded run read the operands of their products: the first reading, in the order nearest_even,
/// nearest_away, as_given, and each of them first without flushing, that all of its results can come from; either_way
/// where none of them explains all. Empty where the arithmetic leaves nothing open.
/// Guarantee: proven: the run is one of those that T-76 with these readings speaks of. Nodes of several products, and
/// such as do more than move elements and add, are either_way
/// Source:    docs/theory.md T-130
Readings readings_of(const Network& network, const RecordedBlock& block, const Setting& setting, Weights& weights);

/// What bounds that take the readings of a narrowed network for granted stand on, in words; empty: nothing.
std::string reading_condition(const Network& narrowed, const Machine& machine);

}  // namespace driftbound::bounds
