#pragma once

#include <span>
#include <vector>

#include "bounds/kernels/elements.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::bounds {

/// The builds of the loops over elements that this processor can run, the slowest first.
inline std::vector<const ElementKernels*> usable_element_kernels() {
  return simd::usable<elements_builds>();
}

/// The last of them.
inline const ElementKernels& fastest_element_kernels() {
  return simd::fastest<elements_builds>();
}

/// sums[i] += more[i], as Magnitudes are added.
/// Shapes:    as many of both
/// Domain:    none below 0
/// Source:    docs/theory.md T-03
inline void add_magnitudes(std::span<double> sums, std::span<const double> more) {
  fastest_element_kernels().add_up(sums.data(), more.data(), sums.data(), sums.size());
}

}  // namespace driftbound::bounds
