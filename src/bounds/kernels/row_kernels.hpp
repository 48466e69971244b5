#pragma once

#include <vector>

#include "bounds/kernels/rows.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::bounds {

/// The builds of the loops over rows that this processor can run, the slowest first.
inline std::vector<const RowKernels*> usable_row_kernels() {
  return simd::usable<rows_builds>();
}

/// The last of them.
inline const RowKernels& fastest_row_kernels() {
  return simd::fastest<rows_builds>();
}

}  // namespace driftbound::bounds
