#include "bounds/theorems/rows.hpp"

#include "bounds/kernels/row_kernels.hpp"

namespace driftbound::bounds::inline theorems {

const RowKernels& row_kernels() {
  return fastest_row_kernels();
}

const SumKernels& sum_kernels() {
  return fastest_sum_kernels();
}

}  // namespace driftbound::bounds::inline theorems
