#include "cuda/cublas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "cuda/failure.hpp"

namespace driftbound::device {

struct Cublas::Library {
  template <class Size>
  using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, Size m, Size n, Size k,
                              const void* alpha, const void* a, cudaDataType a_type, Size a_leading, const void* b,
                              cudaDataType b_type, Size b_leading, const void* beta, void* c, cudaDataType c_type,
                              Size c_leading, cublasComputeType_t, cublasGemmAlgo_t);

  cublasStatus_t (*create)(cublasHandle_t*);
  cublasStatus_t (*destroy)(cublasHandle_t);
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t);
  cublasStatus_t (*set_workspace)(cublasHandle_t, void*, std::size_t);
  cublasStatus_t (*get_version)(cublasHandle_t, int*);
  const char* (*status_name)(cublasStatus_t);
  Gemm<int>* gemm;
  Gemm<std::int64_t>* gemm_64;  ///< since CUDA 12; nullptr before

  void check(cublasStatus_t status, const char* function) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string sentence = std::string(function) + " failed with " + status_name(status);
    if (status == CUBLAS_STATUS_ALLOC_FAILED) throw Failure{DRIFTBOUND_DEVICE_OUT_OF_MEMORY, sentence};
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, sentence};
    throw Failure{DRIFTBOUND_DEVICE_FAILED, sentence};
  }
};

namespace {

std::string library_file() {
  const char* const named = std::getenv("DRIFTBOUND_CUBLAS");
  return named != nullptr ? named : "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
}

[[noreturn]] void no_cublas(const std::string& why) {
  throw Failure{DRIFTBOUND_DEVICE_NOT_AVAILABLE, "no cuBLAS: " + why + " (DRIFTBOUND_CUBLAS can name the file)"};
}

template <class Function>
void bind(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) no_cublas(library_file() + " lacks " + name);
}

/// How a matrix lies, in the words of cuBLAS for its transpose: column-major with a leading dimension, or transposed.
struct Placed {
  cublasOperation_t operation;
  std::int64_t leading;
};

/// A matrix rows x columns; dimensions of one row or column may have any stride.
Placed placed(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
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

Types types_of(driftbound_gemm_mode mode) {
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

}  // namespace

Cublas::Cublas() {
  void* const file = dlopen(library_file().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) no_cublas(dlerror());
  auto library = std::make_unique<Library>();
  bind(file, "cublasCreate_v2", library->create);
  bind(file, "cublasDestroy_v2", library->destroy);
  bind(file, "cublasSetStream_v2", library->set_stream);
  bind(file, "cublasSetWorkspace_v2", library->set_workspace);
  bind(file, "cublasGetVersion_v2", library->get_version);
  bind(file, "cublasGetStatusName", library->status_name);
  bind(file, "cublasGemmEx", library->gemm);
  library->gemm_64 = reinterpret_cast<Library::Gemm<std::int64_t>*>(dlsym(file, "cublasGemmEx_64"));
  library_ = std::move(library);
}

Cublas::~Cublas() {
  if (handle_ != nullptr) library_->destroy(static_cast<cublasHandle_t>(handle_));
}

void Cublas::start(void* stream, void* workspace, std::size_t workspace_bytes) {
  cublasHandle_t handle = nullptr;
  library_->check(library_->create(&handle), "cublasCreate");
  handle_ = handle;
  library_->check(library_->set_stream(handle, static_cast<cudaStream_t>(stream)), "cublasSetStream");
  library_->check(library_->set_workspace(handle, workspace, workspace_bytes), "cublasSetWorkspace");
}

int Cublas::version() const {
  int version = 0;
  library_->check(library_->get_version(static_cast<cublasHandle_t>(handle_), &version), "cublasGetVersion");
  return version;
}

// cuBLAS is column-major: a row-major C = A B is its C^T = B^T A^T, and what is row-major here is already transposed.
void Cublas::multiply(driftbound_gemm_mode mode, const driftbound_product& p) const {
  const Types types = types_of(mode);
  const Placed a = placed(p.m, p.k, p.a_row, p.a_col);
  const Placed b = placed(p.k, p.n, p.b_row, p.b_col);
  const Scales scales;
  const auto call = [&](auto* gemm, auto size) {
    using Size = decltype(size);
    library_->check(
        gemm(static_cast<cublasHandle_t>(handle_), b.operation, a.operation, static_cast<Size>(p.n),
             static_cast<Size>(p.m), static_cast<Size>(p.k), scales.one(types), p.b, types.operands,
             static_cast<Size>(b.leading), p.a, types.operands, static_cast<Size>(a.leading), scales.zero(types), p.c,
             types.result, static_cast<Size>(p.n), types.compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  };
  if (std::max({p.m, p.n, p.k, a.leading, b.leading}) <= std::numeric_limits<int>::max()) {
    call(library_->gemm, int());
  } else if (library_->gemm_64 != nullptr) {
    call(library_->gemm_64, std::int64_t());
  } else {
    throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, "a matrix has more than 2^31 - 1 rows or columns; cuBLAS 12 could"};
  }
}

}  // namespace driftbound::device
