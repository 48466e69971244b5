#include "bounds/kernels/sums_kernel.hpp"

namespace driftbound::bounds {

const SumKernels sums_baseline = sum_kernels;

}  // namespace driftbound::bounds
