#pragma once

#include <vector>

#include "linalg/kernels/ordered_product.hpp"
#include "simd/dispatch.hpp"

namespace driftbound {

/// The builds of the product that this processor can run, the slowest first.
inline std::vector<const ProductKernels*> usable_product_kernels() {
  return simd::usable<product_builds>();
}

/// The last of them.
inline const ProductKernels& fastest_product_kernels() {
  return simd::fastest<product_builds>();
}

}  // namespace driftbound
