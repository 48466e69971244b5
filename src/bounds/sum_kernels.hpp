#pragma once

#include <vector>

#include "bounds/kernels/sums.hpp"

namespace driftbound::bounds {

/// The builds of the loops over sums that this processor can run, the slowest first.
std::vector<const SumKernels*> usable_sum_kernels();

/// The last of them.
const SumKernels& fastest_sum_kernels();

}  // namespace driftbound::bounds
