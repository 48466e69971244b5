#include "bounds/element_kernels.hpp"

namespace driftbound::bounds {

std::vector<const ElementKernels*> usable_element_kernels() {
  std::vector<const ElementKernels*> kernels = {&elements_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&elements_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&elements_avx512);
#endif
  return kernels;
}

const ElementKernels& fastest_element_kernels() {
  static const ElementKernels* const fastest = usable_element_kernels().back();
  return *fastest;
}

}  // namespace driftbound::bounds
