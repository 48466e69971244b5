#pragma once

#include <vector>

#include "reference/kernels/pairs.hpp"
#include "simd/dispatch.hpp"

namespace driftbound {

/// The builds of the loops over balls that this processor can run, the slowest first; all give the same bits.
inline std::vector<const PairKernels*> usable_pair_kernels() {
  return simd::usable<pairs_builds>();
}

/// The last of them.
inline const PairKernels& fastest_pair_kernels() {
  return simd::fastest<pairs_builds>();
}

}  // namespace driftbound
