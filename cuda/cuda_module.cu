// libdriftbound_cuda.so: the module on CUDA devices. What it computes is in *.inl.hpp; here is where and when.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/cublas.hpp"
#include "cuda/cublas_lt.hpp"
#include "cuda/driver.hpp"
#include "cuda/module.inl.hpp"

namespace driftbound::device {
namespace {

/// Whether nothing more can be computed in this process after an error.
bool is_final(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

driftbound_device_status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return DRIFTBOUND_DEVICE_OUT_OF_MEMORY;
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorNoDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return DRIFTBOUND_DEVICE_NOT_AVAILABLE;
    default:
      return is_final(error) ? DRIFTBOUND_DEVICE_LOST : DRIFTBOUND_DEVICE_FAILED;
  }
}

void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // or the next call would report it again
  const std::string why = error == cudaErrorDevicesUnavailable
                              ? "; another process uses it, or its compute mode is exclusive or prohibited"
                              : "";
  throw Failure{status_of(error), what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")" + why};
}

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct MemoryDeleter {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;
using Memory = std::unique_ptr<void, MemoryDeleter>;

Stream new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "no stream could be made");
  return Stream(stream);
}

Memory new_memory(std::uint64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::uint64_t>(bytes, 1)),
        std::to_string(bytes) + " bytes could not be allocated");
  return Memory(memory);
}

template <class F>
__global__ void run_for_each(std::int64_t count, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) f(i);
}

template <class Product>
__global__ void __launch_bounds__(Product::threads) run_for_each_block(Product product) {
  __shared__ typename Product::Tiles tiles;
  for (std::int64_t block = blockIdx.x; block < product.blocks(); block += gridDim.x) {
    typename Product::Sums sums(product.chain_length);
    for (std::int64_t k = 0; k < product.p.k; k += Product::depth) {
      product.load(tiles, block, threadIdx.x, k);
      __syncthreads();
      product.add(tiles, threadIdx.x, k, sums);
      __syncthreads();
    }
    product.store(block, threadIdx.x, sums);
  }
}

struct DoNothing {
  __host__ __device__ void operator()(std::int64_t) const {}
};

std::string capability_text(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

/// Every kernel is compiled for the same devices, so that one of them tells for all. To be asked before the first real
/// kernel: that would fail in the middle of a run.
void require_kernels(const driftbound_device_info& info) {
  constexpr int architectures[] = {__CUDA_ARCH_LIST__};  // ascending, 800 for 8.0
  constexpr int oldest = architectures[0];
  if (info.compute_major * 100 + info.compute_minor * 10 < oldest) {
    throw Failure{DRIFTBOUND_DEVICE_NOT_AVAILABLE,
                  "the device '" + std::string(info.name) + "' has compute capability " +
                      capability_text(info.compute_major, info.compute_minor) + "; this module has code for " +
                      capability_text(oldest / 100, oldest % 100 / 10) + " and newer"};
  }
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, run_for_each<DoNothing>), "the module's kernels cannot be loaded");
}

template <std::size_t size>
void set_text(char (&target)[size], const std::string& text) {
  std::snprintf(target, size, "%s", text.c_str());
}

/// The variables that change what cuBLAS computes, as far as they are set. CUBLAS_WORKSPACE_CONFIG is none of them:
/// the workspace is ours.
std::string vendor_environment() {
  std::string text;
  for (const char* name : {"NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION",
                           "CUBLAS_EMULATION_STRATEGY", "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT",
                           "CUBLASLT_HEURISTICS_LUT_FILE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) text += (text.empty() ? "" : " ") + std::string(name) + "=" + value;
  }
  return text;
}

constexpr unsigned threads_of_a_block = 256;
constexpr std::int64_t most_blocks = std::int64_t{1} << 30;

class CudaMachine {
public:
  CudaMachine(std::int32_t ordinal, driftbound_device_info& info) : ordinal_(ordinal) {
    info.driver_version = require_device(ordinal, CUDART_VERSION);
    cublas_ = std::make_unique<Cublas>();
    enter();
    describe(info);
    require_kernels(info);
    stream_ = new_stream();
    workspace_bytes_ = (info.compute_major >= 9 ? std::size_t{32} : std::size_t{4}) << 20;  // as cuBLAS itself takes
    workspace_ = new_memory(workspace_bytes_);
    cublas_->start(stream_.get(), workspace_.get(), workspace_bytes_);
    info.blas_version = cublas_->version();
  }
  ~CudaMachine() { cudaSetDevice(ordinal_); }  // where its stream, memory and cuBLAS are given back
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  void enter() const { check(cudaSetDevice(ordinal_), "the device cannot be used"); }

  void memory(std::uint64_t& free_bytes, std::uint64_t& all_bytes) const {
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "the device does not tell how much memory is free");
    free_bytes = free;
    all_bytes = all;
  }

  void* allocate(std::uint64_t bytes) const { return new_memory(bytes).release(); }
  void release(void* memory) const {
    // What was started may still use the memory, and nothing promises that cudaFree waits for a non-blocking stream.
    cudaStreamSynchronize(stream_.get());
    cudaFree(memory);
  }

  void upload(void* to, const void* from, std::uint64_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.get()), "an upload failed");
    synchronize();
  }
  void download(void* to, const void* from, std::uint64_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()), "a download failed");
    synchronize();
  }
  void synchronize() const { check(cudaStreamSynchronize(stream_.get()), "the device failed"); }

  template <class F>
  void for_each(std::int64_t count, const F& f) const {
    if (count <= 0) return;
    const std::int64_t blocks = std::min((count + threads_of_a_block - 1) / threads_of_a_block, most_blocks);
    run_for_each<<<static_cast<unsigned>(blocks), threads_of_a_block, 0, stream_.get()>>>(count, f);
    check(cudaGetLastError(), "a kernel could not be started");
  }

  template <class Product>
  void for_each_block(const Product& product) const {
    const std::int64_t blocks = std::min(product.blocks(), most_blocks);
    run_for_each_block<<<static_cast<unsigned>(blocks), Product::threads, 0, stream_.get()>>>(product);
    check(cudaGetLastError(), "a kernel could not be started");
  }

  void gemm(driftbound_gemm_mode mode, const driftbound_product& product) const {
    by_vendor([&] { cublas_->multiply(mode, product); });
  }
  std::vector<driftbound_algorithm> algorithms(driftbound_gemm_mode mode, const driftbound_product& product) {
    std::vector<driftbound_algorithm> found;
    by_vendor([&] { found = cublas_lt().algorithms(mode, product); });
    return found;
  }
  driftbound_algorithm gemm_by(driftbound_gemm_mode mode, const driftbound_product& product, std::int32_t algorithm) {
    driftbound_algorithm used{};
    by_vendor([&] { used = cublas_lt().multiply(mode, product, algorithm); });
    return used;
  }

private:
  /// work(), where the vendor's library says less about a device that is gone than CUDA.
  template <class Work>
  void by_vendor(Work work) const {
    try {
      work();
    } catch (const Failure&) {
      const cudaError_t error = cudaStreamQuery(stream_.get());
      if (is_final(error)) check(error, "the device failed");
      cudaGetLastError();
      throw;
    }
  }

  const CublasLt& cublas_lt() {
    if (!cublas_lt_) cublas_lt_ = std::make_unique<CublasLt>(stream_.get(), workspace_.get(), workspace_bytes_);
    return *cublas_lt_;
  }

  void describe(driftbound_device_info& info) const {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal_), "the device cannot be used");
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "the CUDA runtime has no version");
    set_text(info.backend, "cuda");
    set_text(info.name, properties.name);
    set_text(info.build_flags, DRIFTBOUND_CUDA_BUILD);
    set_text(info.environment, vendor_environment());
    info.compute_major = properties.major;
    info.compute_minor = properties.minor;
    info.multiprocessors = properties.multiProcessorCount;
    info.runtime_version = runtime;
    info.memory_bytes = properties.totalGlobalMem;
  }

  std::int32_t ordinal_;
  Stream stream_;
  Memory workspace_;
  std::size_t workspace_bytes_ = 0;
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<CublasLt> cublas_lt_;  ///< where an algorithm was asked for
};

}  // namespace
}  // namespace driftbound::device

extern "C" __attribute__((visibility("default"))) const driftbound_device_functions* driftbound_device_entry(
    std::uint32_t interface_version) {
  return driftbound::device::Module<driftbound::device::CudaMachine>::table(interface_version);
}
