#pragma once

#include <vector>

#include "evaluate/kernels/product.hpp"

namespace driftbound {

/// The builds of the product that this processor can run, the slowest first.
std::vector<const ProductKernels*> usable_product_kernels();

/// The last of them.
const ProductKernels& fastest_product_kernels();

}  // namespace driftbound
