#include "num/exact_product_kernels.hpp"

namespace driftbound::num {

#ifdef DRIFTBOUND_X86_KERNELS
namespace {

/// Zen 4 does vectors of 64 bytes in halves, and widens them to double in more steps than vectors of 32.
const ExactKernels& avx512_kernels() {
  static const ExactKernels kernels = [] {
    ExactKernels chosen = exact_avx512;
    if (__builtin_cpu_is("amdfam19h")) chosen.dot = exact_avx2.dot;
    return chosen;
  }();
  return kernels;
}

}  // namespace
#endif

std::vector<const ExactKernels*> usable_exact_kernels() {
  std::vector<const ExactKernels*> kernels = {&exact_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(&exact_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&avx512_kernels());
#endif
  return kernels;
}

const ExactKernels& fastest_exact_kernels() {
  static const ExactKernels* const fastest = usable_exact_kernels().back();
  return *fastest;
}

}  // namespace driftbound::num
