// Operations that IEEE 754 rounds correctly, on host and device alike; nvcc's options for faster ones leave these alone.
#pragma once

#include <cmath>

#include "num/host_device.hpp"

namespace driftbound::ieee {

DRIFTBOUND_HD inline float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}
DRIFTBOUND_HD inline double square_root(double x) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

DRIFTBOUND_HD inline float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
DRIFTBOUND_HD inline double fused_multiply_add(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

}  // namespace driftbound::ieee
