#pragma once

#include <cstddef>
#include <memory>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// cuBLAS, loaded when first needed: a module that was linked with it would not even start without.
class Cublas {
public:
  /// Loads the library: the file named by $DRIFTBOUND_CUBLAS, or libcublas.so of the version compiled with.
  /// Throws:    Failure where it is not found
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// Makes a handle for the current device. A workspace of one's own makes results the same from run to run.
  void start(void* stream, void* workspace, std::size_t workspace_bytes);
  /// 130000 for 13.0
  int version() const;
  /// Throws:    Failure: UNSUPPORTED where cuBLAS cannot express the product
  void multiply(driftbound_gemm_mode mode, const driftbound_product& product) const;

private:
  struct Library;
  std::unique_ptr<const Library> library_;
  void* handle_ = nullptr;
};

}  // namespace driftbound::device
