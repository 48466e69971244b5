#pragma once

#include <vector>

#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

/// The builds of the loops over rows that this processor can run, the slowest first.
std::vector<const RowKernels*> usable_row_kernels();

/// The last of them.
const RowKernels& fastest_row_kernels();

}  // namespace driftbound::bounds
