#include "bounds/kernels/sums_kernel.hpp"

namespace driftbound::bounds {

const SumKernels sums_avx512 = sum_kernels;

}  // namespace driftbound::bounds
