#include "reference/pair_kernels.hpp"

namespace driftbound {

std::vector<const PairKernels*> usable_pair_kernels() {
  std::vector<const PairKernels*> kernels = {&pairs_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&pairs_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&pairs_avx512);
#endif
  return kernels;
}

const PairKernels& fastest_pair_kernels() {
  static const PairKernels* const fastest = usable_pair_kernels().back();
  return *fastest;
}

}  // namespace driftbound
