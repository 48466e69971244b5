#pragma once

#include <span>
#include <vector>

#include "bounds/kernels/elements.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::bounds {

// Selects the build of `ElementKernels` that the processor can run.

/// The builds that this processor can run, the slowest first.
inline std::vector<const ElementKernels*> usable_element_kernels() {
  return simd::usable<elements_builds>();
}

/// The fastest build that this processor can run.
inline const ElementKernels& fastest_element_kernels() {
  return simd::fastest<elements_builds>();
}

/// sums[i] += more[i], rounded up as the addition of Magnitudes is.
/// Shapes:    both [n]
/// Domain:    sums, more >= 0
/// Source:    docs/theory.md T-03
inline void add_magnitudes(std::span<double> sums, std::span<const double> more) {
  fastest_element_kernels().add_up(sums.data(), more.data(), sums.data(), sums.size());
}

}  // namespace driftbound::bounds
