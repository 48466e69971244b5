#pragma once

#include <vector>

#include "bounds/kernels/rows.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::bounds {

// Selects the build of `RowKernels` that the processor can run.

/// The builds that this processor can run, the slowest first.
inline std::vector<const RowKernels*> usable_row_kernels() {
  return simd::usable<rows_builds>();
}

/// The fastest build that this processor can run.
inline const RowKernels& fastest_row_kernels() {
  return simd::fastest<rows_builds>();
}

}  // namespace driftbound::bounds
