#include "bounds/kernels/rows_kernel.hpp"

namespace driftbound::bounds {

const RowKernels rows_avx2 = row_kernels;

}  // namespace driftbound::bounds
