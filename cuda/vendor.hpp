// What the products of cuBLAS and of cuBLASLt have in common: their types, and how matrices lie.
#pragma once

#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "cuda/failure.hpp"

namespace driftbound::device {

[[noreturn]] inline void no_cublas(const std::string& why) {
  throw Failure{DRIFTBOUND_DEVICE_NOT_AVAILABLE, "no cuBLAS: " + why + " (DRIFTBOUND_CUBLAS can name the file)"};
}

/// Finds a function of a loaded library, whose file has this name.
/// Throws:    Failure where it is missing
template <class Function>
void bind(void* library, const std::string& file, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) no_cublas(file + " lacks " + name);
}

/// Throws:    Failure where a call of a function did not succeed
inline void require_success(cublasStatus_t status, const char* function, const char* status_name) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string sentence = std::string(function) + " failed with " + status_name;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw Failure{DRIFTBOUND_DEVICE_OUT_OF_MEMORY, sentence};
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, sentence};
  throw Failure{DRIFTBOUND_DEVICE_FAILED, sentence};
}

/// How a matrix lies, in the words of cuBLAS for its transpose: column-major with a leading dimension, or transposed.
struct Placed {
  cublasOperation_t operation;
  std::int64_t leading;
};

/// A matrix rows x columns; dimensions of one row or column may have any stride.
inline Placed placed(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    return {CUBLAS_OP_N, std::max(row_stride, columns)};
  }
  if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
    return {CUBLAS_OP_T, std::max(column_stride, rows)};
  }
  throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, "cuBLAS multiplies matrices whose rows or columns have no gaps alone"};
}

struct Types {
  cudaDataType operands, result;
  cublasComputeType_t compute;
};

inline Types types_of(driftbound_gemm_mode mode) {
  switch (mode) {
    case DRIFTBOUND_GEMM_F32:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DRIFTBOUND_GEMM_F32_PEDANTIC:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC};
    case DRIFTBOUND_GEMM_TF32:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case DRIFTBOUND_GEMM_BF16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DRIFTBOUND_GEMM_FP16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DRIFTBOUND_GEMM_F64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DRIFTBOUND_GEMM_F64_PEDANTIC:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F_PEDANTIC};
  }
  throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, "a mode of the matrix product that this module does not know"};
}

/// One and zero in the type that the sums have.
struct Scales {
  float one_f32 = 1.0f, zero_f32 = 0.0f;
  double one_f64 = 1.0, zero_f64 = 0.0;

  const void* one(const Types& types) const {
    return types.result == CUDA_R_64F ? static_cast<const void*>(&one_f64) : &one_f32;
  }
  const void* zero(const Types& types) const {
    return types.result == CUDA_R_64F ? static_cast<const void*>(&zero_f64) : &zero_f32;
  }
};

}  // namespace driftbound::device
