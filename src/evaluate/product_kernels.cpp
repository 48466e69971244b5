#include "evaluate/product_kernels.hpp"

namespace driftbound {

std::vector<const ProductKernels*> usable_product_kernels() {
  std::vector<const ProductKernels*> kernels = {&product_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&product_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&product_avx512);
#endif
  return kernels;
}

const ProductKernels& fastest_product_kernels() {
  static const ProductKernels* const fastest = usable_product_kernels().back();
  return *fastest;
}

}  // namespace driftbound
