#include "implicit/block_kernels.hpp"

namespace driftbound::implicit {

std::vector<const BlockKernels*> usable_block_kernels() {
  std::vector<const BlockKernels*> kernels = {&blocks_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&blocks_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&blocks_avx512);
#endif
  return kernels;
}

const BlockKernels& fastest_block_kernels() {
  static const BlockKernels* const fastest = usable_block_kernels().back();
  return *fastest;
}

std::vector<const FloatBlockKernels*> usable_float_block_kernels() {
  std::vector<const FloatBlockKernels*> kernels = {&float_blocks_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&float_blocks_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&float_blocks_avx512);
#endif
  return kernels;
}

const FloatBlockKernels& fastest_float_block_kernels() {
  static const FloatBlockKernels* const fastest = usable_float_block_kernels().back();
  return *fastest;
}

std::vector<const PairBlockKernels*> usable_pair_block_kernels() {
  std::vector<const PairBlockKernels*> kernels = {&pair_blocks_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&pair_blocks_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&pair_blocks_avx512);
#endif
  return kernels;
}

const PairBlockKernels& fastest_pair_block_kernels() {
  static const PairBlockKernels* const fastest = usable_pair_block_kernels().back();
  return *fastest;
}

}  // namespace driftbound::implicit
