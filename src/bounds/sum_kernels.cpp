#include "bounds/sum_kernels.hpp"

namespace driftbound::bounds {

std::vector<const SumKernels*> usable_sum_kernels() {
  std::vector<const SumKernels*> kernels = {&sums_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2")) kernels.push_back(&sums_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&sums_avx512);
#endif
  return kernels;
}

const SumKernels& fastest_sum_kernels() {
  static const SumKernels* const fastest = usable_sum_kernels().back();
  return *fastest;
}

}  // namespace driftbound::bounds
