#pragma once

#include "driftbound/trace/trace.hpp"
#include "evaluate/batches.hpp"

namespace driftbound {

/// This library, now.
Provenance own_provenance();
/// This library on this processor, now.
Provenance cpu_provenance();

/// Adds how many samples were evaluated together, and how many of all were recorded.
void describe_batches(const Batches& batches, Provenance& provenance);

}  // namespace driftbound
