#pragma once

#include "bounds/kernels/row_kernels.hpp"
#include "bounds/kernels/sum_kernels.hpp"

namespace driftbound::bounds::inline theorems {

// The kernels that evaluate theorems for rows of numbers: the fastest builds for this processor.
// Source: docs/theory.md T-81

const RowKernels& row_kernels();
const SumKernels& sum_kernels();

}  // namespace driftbound::bounds::inline theorems
