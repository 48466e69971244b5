#pragma once

#include <vector>

#include "reference/kernels/pairs.hpp"

namespace driftbound {

/// The builds of the loops over balls that this processor can run, the slowest first; all give the same bits.
std::vector<const PairKernels*> usable_pair_kernels();

/// The last of them.
const PairKernels& fastest_pair_kernels();

}  // namespace driftbound
