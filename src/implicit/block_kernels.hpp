#pragma once

#include <vector>

#include "implicit/kernels/blocks.hpp"
#include "implicit/kernels/pair_blocks.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::implicit {

/// The builds of the loops over blocks that this processor can run, the slowest first.
inline std::vector<const BlockKernels*> usable_block_kernels() {
  return simd::usable<blocks_builds>();
}

/// The last of them.
inline const BlockKernels& fastest_block_kernels() {
  return simd::fastest<blocks_builds>();
}

/// The same of loops in float32.
inline std::vector<const FloatBlockKernels*> usable_float_block_kernels() {
  return simd::usable<float_blocks_builds>();
}
inline const FloatBlockKernels& fastest_float_block_kernels() {
  return simd::fastest<float_blocks_builds>();
}

/// The same of loops in double-double.
inline std::vector<const PairBlockKernels*> usable_pair_block_kernels() {
  return simd::usable<pair_blocks_builds>();
}
inline const PairBlockKernels& fastest_pair_block_kernels() {
  return simd::fastest<pair_blocks_builds>();
}

}  // namespace driftbound::implicit
