#include "cuda/cublas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "cuda/vendor.hpp"

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
    require_success(status, function, status_name(status));
  }
};

namespace {

std::string library_file() {
  const char* const named = std::getenv("DRIFTBOUND_CUBLAS");
  return named != nullptr ? named : "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
}

}  // namespace

Cublas::Cublas() {
  void* const file = dlopen(library_file().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) no_cublas(dlerror());
  auto library = std::make_unique<Library>();
  bind(file, library_file(), "cublasCreate_v2", library->create);
  bind(file, library_file(), "cublasDestroy_v2", library->destroy);
  bind(file, library_file(), "cublasSetStream_v2", library->set_stream);
  bind(file, library_file(), "cublasSetWorkspace_v2", library->set_workspace);
  bind(file, library_file(), "cublasGetVersion_v2", library->get_version);
  bind(file, library_file(), "cublasGetStatusName", library->status_name);
  bind(file, library_file(), "cublasGemmEx", library->gemm);
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
