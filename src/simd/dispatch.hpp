#pragma once

#include <vector>

#include "simd/target.hpp"

namespace driftbound::simd {

/// The tables in `builds` that this processor can run, in that order: the slowest first.
template <const auto& builds>
auto usable() {
  std::vector<decltype(builds[0].kernels)> kernels;
  for (const auto& build : builds)
    if (is_usable(build.target)) kernels.push_back(build.kernels);
  return kernels;
}

/// The last of them.
template <const auto& builds>
const auto& fastest() {
  static const auto* const kernels = usable<builds>().back();
  return *kernels;
}

}  // namespace driftbound::simd
