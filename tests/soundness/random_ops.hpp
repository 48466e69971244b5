#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "soundness/random_networks.hpp"

namespace driftbound::soundness {

/// Ops that belong together.
enum class OpFamily {
  norms,
  attention,
  convolutions,
  pooling,
  activations,
  reductions,
  functions,
  contractions,
  selections,
  choices,
};
const std::vector<OpFamily>& all_op_families();
std::string_view family_name(OpFamily family);

/// One to three ops of a family, each on the result of the one before where it takes it: random attributes and shapes,
/// weights and inputs of a random family of data, in a random arithmetic and order. The seed says everything.
Case random_op_case(OpFamily family, std::uint64_t seed);

}  // namespace driftbound::soundness
