#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"

namespace driftbound {

/// Who multiplies matrices on the GPU.
enum class CudaProduct {
  vendor,           ///< cuBLAS as frameworks call it: fastest, order of summation unknown
  vendor_pedantic,  ///< cuBLAS without any substitution: CUBLAS_COMPUTE_32F_PEDANTIC, fp32 and fp64 only
  by_algorithm,     ///< cuBLASLt, by one of the algorithms that it offers for each product
  ordered           ///< driftbound's kernel: declared order, the same bits for every batch size and as on the CPU
};

struct CudaOptions {
  std::string arithmetic = "fp32";  ///< "fp64", "fp32", "tf32", "bf16", "fp16" (float32 sums for the last three)
  CudaProduct product = CudaProduct::vendor;
  int algorithm = 0;  ///< with `by_algorithm`: its number for every product, as cuda_algorithms() counts them
  SummationOrder order{SummationOrder::Kind::blocked, 8, true};  ///< of `ordered` products, and of Softmax always
  int device = 0;
  std::optional<FormatId> output;      ///< format that results are stored in; empty: the accumulator's
  bool stores_declared_types = false;  ///< as ArithmeticModel::stores_declared_types
};

/// Evaluates on a GPU through the module libdriftbound_cuda.so, looked for in the folders of
/// $DRIFTBOUND_PLUGIN_PATH (separated by ':'), then in driftbound-modules/ beside the file that contains this library:
/// the shared library, or the program it is linked into; and beside the libraries of an installed program. Everything
/// but the matrix product is driftbound's own code, for float32 the CPU evaluator's, so that CudaProduct::ordered in
/// fp32, tf32, bf16 and fp16 gives the bits of cpu_evaluator (docs/arithmetic.md, "On a GPU"). The trace's provenance
/// names device, driver, toolkit, flags and math mode, and of CudaProduct::by_algorithm the algorithm of each layer. Runs
/// of one evaluator follow each other; the device is held as long as the evaluator or a copy of it lives.
/// Throws:    NotAvailable saying what is missing (no module, no driver, driver too old, no device, no cuBLAS);
///            InvalidArgument (arithmetic; pedantic in a format that has none; a variable of the environment such as
///            NVIDIA_TF32_OVERRIDE that changes what vendor products compute); Unsupported where the order is
///            `unknown`. run(): NotAvailable where the device runs out of memory or is lost, naming the layer;
///            Unsupported for broadcasts over more dimensions than a device takes, and where cuBLASLt offers no
///            algorithm of this number for a product
Evaluator cuda_evaluator(const CudaOptions& options);

/// The algorithms that cuBLASLt offers for the product of a row-major [m, k] and a row-major [k, n], in words: those of
/// cublasLtMatmulAlgoGetHeuristic, in its order, the one that it expects to be the fastest first, 32 at most. Another
/// device, or version, offers others.
/// Throws:    as cuda_evaluator
std::vector<std::string> cuda_algorithms(const CudaOptions& options, std::int64_t m, std::int64_t k, std::int64_t n);

}  // namespace driftbound
