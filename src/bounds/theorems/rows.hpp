#pragma once

#include "bounds/row_kernels.hpp"
#include "bounds/sum_kernels.hpp"

namespace driftbound::bounds::inline theorems {

// The theorems for rows of numbers, in the fastest kernels of this processor. Source: docs/theory.md T-81

const RowKernels& row_kernels();
const SumKernels& sum_kernels();

}  // namespace driftbound::bounds::inline theorems
