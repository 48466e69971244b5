#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// cuBLASLt, which multiplies by the algorithm that it is told. It is a part of cuBLAS, and loaded when first needed.
class CublasLt {
public:
  /// Makes a handle for the current device. The workspace and the stream outlive the object.
  /// Throws:    Failure where the library is not found
  CublasLt(void* stream, void* workspace, std::size_t workspace_bytes);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// What cublasLtMatmulAlgoGetHeuristic offers within the workspace, in its order: at most
  /// DRIFTBOUND_DEVICE_MAX_ALGORITHMS.
  std::vector<driftbound_algorithm> algorithms(driftbound_gemm_mode mode, const driftbound_product& product) const;
  /// The product by one of them, which is returned.
  /// Throws:    Failure: UNSUPPORTED where there is none of this number
  driftbound_algorithm multiply(driftbound_gemm_mode mode, const driftbound_product& product,
                                std::int32_t algorithm) const;

private:
  struct Library;
  class Task;
  std::unique_ptr<const Library> library_;
  void* handle_ = nullptr;
  void* stream_;
  void* workspace_;
  std::size_t workspace_bytes_;
};

}  // namespace driftbound::device
