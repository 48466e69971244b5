#pragma once

#include <vector>

#include "simd/target.hpp"

// Selection of the kernel tables that this processor can execute.

namespace driftbound::simd {

/// Returns the tables of `builds` that this processor can execute, in the order of `builds` (slowest first).
template <const auto& builds>
auto usable() {
  std::vector<decltype(builds[0].kernels)> kernels;
  for (const auto& build : builds)
    if (is_usable(build.target)) kernels.push_back(build.kernels);
  return kernels;
}

/// Returns the last table of usable(). It is selected once per process.
template <const auto& builds>
const auto& fastest() {
  static const auto* const kernels = usable<builds>().back();
  return *kernels;
}

}  // namespace driftbound::simd
