#include "bounds/kernels/rows_kernel.hpp"

namespace driftbound::bounds {

const RowKernels rows_baseline = row_kernels;

}  // namespace driftbound::bounds
