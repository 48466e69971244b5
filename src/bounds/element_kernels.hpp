#pragma once

#include <vector>

#include "bounds/kernels/elements.hpp"

namespace driftbound::bounds {

/// The builds of the loops over elements that this processor can run, the slowest first.
std::vector<const ElementKernels*> usable_element_kernels();

/// The last of them.
const ElementKernels& fastest_element_kernels();

}  // namespace driftbound::bounds
