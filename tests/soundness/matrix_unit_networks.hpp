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
};

/// One to four products (dense layers with and without bias, scaled ones, attention) with activations, residuals and
/// softmax between them, over data of every family. Every product is emulated (support/matrix_unit.hpp) within
/// the assumptions of docs/theory.md T-21, by a unit at least as fine as the trace declares, or by float32 operations;
/// each product reads all its operands alike, or each sum in its own way. The other ops are float32.
UnitNetwork random_unit_network(std::uint64_t seed);

/// Judges one by every bound.
void check_unit_network(const UnitNetwork& network, CheckOptions options, Tally& tally);

}  // namespace driftbound::soundness
