#include "bounds/row_kernels.hpp"

namespace driftbound::bounds {

std::vector<const RowKernels*> usable_row_kernels() {
  std::vector<const RowKernels*> kernels = {&rows_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (__builtin_cpu_supports("avx2")) kernels.push_back(&rows_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&rows_avx512);
#endif
  return kernels;
}

const RowKernels& fastest_row_kernels() {
  static const RowKernels* const fastest = usable_row_kernels().back();
  return *fastest;
}

}  // namespace driftbound::bounds
