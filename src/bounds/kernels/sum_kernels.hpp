#pragma once

#include <vector>

#include "bounds/kernels/sums.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::bounds {

/// The builds of the loops over sums that this processor can run, the slowest first.
inline std::vector<const SumKernels*> usable_sum_kernels() {
  return simd::usable<sums_builds>();
}

/// The last of them.
inline const SumKernels& fastest_sum_kernels() {
  return simd::fastest<sums_builds>();
}

}  // namespace driftbound::bounds
