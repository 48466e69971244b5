#pragma once

#include <string>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "evaluate/device/interface.h"

namespace driftbound::device {

/// What a run with these options computes on a device, as far as it is known. `ordered`: the CPU evaluator's
/// arithmetic, float64 with the functions of the CUDA math library. Vendor products: any order, maybe flushing, and for
/// tf32, bf16 and fp16 the tensor core of the device's compute capability.
/// Source:    docs/arithmetic.md ("On a GPU")
/// Throws:    InvalidArgument (arithmetic; pedantic where there is none), Unsupported where the order is `unknown`
ArithmeticModel cuda_arithmetic(const CudaOptions& options, const driftbound_device_info& info);

/// The vendor's mode of a matrix product.
/// Throws:    InvalidArgument as cuda_arithmetic
driftbound_gemm_mode gemm_mode(const CudaOptions& options);

/// "CUBLAS_COMPUTE_32F_FAST_TF32", "driftbound's kernel in order blocked:8+fma"
std::string math_mode(const CudaOptions& options);

/// A version as CUDA counts (13000) and as cuBLAS does (130000): "13.0", "13.0.0".
std::string cuda_version(int version);
std::string blas_version(int version);

}  // namespace driftbound::device
