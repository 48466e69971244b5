#pragma once

#include <vector>

#include "implicit/kernels/blocks.hpp"
#include "implicit/kernels/pair_blocks.hpp"

namespace driftbound::implicit {

/// The builds of the loops over blocks that this processor can run, the slowest first.
std::vector<const BlockKernels*> usable_block_kernels();

/// The last of them.
const BlockKernels& fastest_block_kernels();

/// The same of loops in float32.
std::vector<const FloatBlockKernels*> usable_float_block_kernels();
const FloatBlockKernels& fastest_float_block_kernels();

/// The same of loops in double-double.
std::vector<const PairBlockKernels*> usable_pair_block_kernels();
const PairBlockKernels& fastest_pair_block_kernels();

}  // namespace driftbound::implicit
