#pragma once

#include <vector>

#include "linalg/kernels/exact_product.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::linalg {

/// The builds of the exact product that this processor can run, the slowest first.
inline std::vector<const ExactKernels*> usable_exact_kernels() {
  return simd::usable<exact_builds>();
}

/// The last of them.
inline const ExactKernels& fastest_exact_kernels() {
  return simd::fastest<exact_builds>();
}

}  // namespace driftbound::linalg
