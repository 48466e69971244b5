#pragma once

#include <vector>

#include "implicit/kernels/blocks.hpp"

namespace driftbound::implicit {

/// The builds of the loops over blocks that this processor can run, the slowest first.
std::vector<const BlockKernels*> usable_block_kernels();

/// The last of them.
const BlockKernels& fastest_block_kernels();

}  // namespace driftbound::implicit
