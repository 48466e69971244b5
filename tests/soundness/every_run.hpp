#pragma once

#include "soundness/random.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// Whether foreign runs of the case can be made: batched, no layer that depends on no input, float32 accumulators.
bool has_foreign_runs(const Case& the_case);

/// Runs a network in the case's order, in others, in other batches and by other programs' products, with subnormals
/// flushed there at times; holds all of them against what the first run's bounds say of every run
/// ("every run adjoint/any-order", "every run adjoint/order-aware", "every run rounded-shadow", "every run replay"), and two of them
/// against all bounds of their own. Cases that are not batched, have layers that depend on no input, or accumulate in
/// other formats than float32 are left out.
void check_every_run(const Case& the_case, Random& random, const CheckOptions& options, Tally& tally);

}  // namespace driftbound::soundness
