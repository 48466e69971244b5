#pragma once

#include <vector>

#include "bounds/kernels/sums.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::bounds {

// Selects the build of `SumKernels` that the processor can run.

/// The builds that this processor can run, the slowest first.
inline std::vector<const SumKernels*> usable_sum_kernels() {
  return simd::usable<sums_builds>();
}

/// The fastest build that this processor can run.
inline const SumKernels& fastest_sum_kernels() {
  return simd::fastest<sums_builds>();
}

}  // namespace driftbound::bounds
