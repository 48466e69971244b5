#pragma once

#include <cstdint>
#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// A small network as a device with a matrix unit might have computed it.
struct UnitNetwork {
  Graph graph;
  Trace trace;
  std::string description;
  bool reads_as_given = false;  ///< some product took its operands as they are, against assumption A-07
};

/// One to four products (dense layers with and without bias, scaled ones, attention) with activations, residuals and
/// softmax between them, over data of every family. Every product is emulated (support/matrix_unit.hpp) within
/// the assumptions of docs/theory.md T-21, by a unit at least as fine as the trace declares, or by float32 operations
/// where it may be bypassed; the other ops are float32.
UnitNetwork random_unit_network(std::uint64_t seed, bool may_be_bypassed = true);

/// Judges one by every bound, the rounded shadow only where every product reads its operands rounded.
void check_unit_network(const UnitNetwork& network, CheckOptions options, Tally& tally);

}  // namespace driftbound::soundness
