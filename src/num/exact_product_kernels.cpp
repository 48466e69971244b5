#include "num/exact_product_kernels.hpp"

namespace driftbound::num {

std::vector<const ExactKernels*> usable_exact_kernels() {
  std::vector<const ExactKernels*> kernels = {&exact_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&exact_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&exact_avx512);
#endif
  return kernels;
}

const ExactKernels& fastest_exact_kernels() {
  static const ExactKernels* const fastest = usable_exact_kernels().back();
  return *fastest;
}

}  // namespace driftbound::num
