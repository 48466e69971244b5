#pragma once

#include <vector>

#include "num/kernels/exact_product.hpp"

namespace driftbound::num {

/// The builds of the exact product that this processor can run, the slowest first.
std::vector<const ExactKernels*> usable_exact_kernels();

/// The last of them.
const ExactKernels& fastest_exact_kernels();

}  // namespace driftbound::num
