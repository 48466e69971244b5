#pragma once

#include <cstdint>

#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// A recorded run of one to five calls (products, attention, norms, softmax, functions, losses, sums of parts, casts,
/// moves), each on the result of the one before where it takes it: values of a random family of data, stored as float32,
/// bfloat16 or float16, some in part, some not at all. Results are those of the CPU evaluator in orders drawn at random.
/// Judges every part of every record, and the network that the records are. The seed says everything.
void check_random_records(std::uint64_t seed, Tally& tally);

}  // namespace driftbound::soundness
