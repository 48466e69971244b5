#include "evaluate/device/arithmetic.hpp"

#include <array>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound::device {
namespace {

struct VendorMode {
  std::string_view arithmetic;
  CudaProduct product;
  driftbound_gemm_mode mode;
  std::string_view name;
};

constexpr std::array<VendorMode, 7> vendor_modes = {{
    {"fp64", CudaProduct::vendor, DRIFTBOUND_GEMM_F64, "CUBLAS_COMPUTE_64F"},
    {"fp64", CudaProduct::vendor_pedantic, DRIFTBOUND_GEMM_F64_PEDANTIC, "CUBLAS_COMPUTE_64F_PEDANTIC"},
    {"fp32", CudaProduct::vendor, DRIFTBOUND_GEMM_F32, "CUBLAS_COMPUTE_32F"},
    {"fp32", CudaProduct::vendor_pedantic, DRIFTBOUND_GEMM_F32_PEDANTIC, "CUBLAS_COMPUTE_32F_PEDANTIC"},
    {"tf32", CudaProduct::vendor, DRIFTBOUND_GEMM_TF32, "CUBLAS_COMPUTE_32F_FAST_TF32"},
    {"bf16", CudaProduct::vendor, DRIFTBOUND_GEMM_BF16, "CUBLAS_COMPUTE_32F, operands bfloat16"},
    {"fp16", CudaProduct::vendor, DRIFTBOUND_GEMM_FP16, "CUBLAS_COMPUTE_32F, operands float16"},
}};

const VendorMode& vendor_mode(const CudaOptions& options) {
  const bool is_by_algorithm = options.product == CudaProduct::by_algorithm;
  const CudaProduct product = is_by_algorithm ? CudaProduct::vendor : options.product;
  for (const VendorMode& mode : vendor_modes) {
    if (mode.arithmetic == options.arithmetic && mode.product == product) return mode;
  }
  throw InvalidArgument("cuBLAS has no pedantic product in " + options.arithmetic +
                        "; pedantic products are fp32 or fp64");
}

/// Units of the CUDA math library for double precision, and of sigmoid and softplus made of them
/// (docs/arithmetic.md derives these two).
std::vector<FunctionAccuracy> cuda_double_functions() {
  constexpr std::string_view guide = "CUDA C++ Programming Guide, mathematical functions, double precision";
  constexpr std::string_view derived = "derived in docs/arithmetic.md from the CUDA C++ Programming Guide";
  constexpr std::array<std::pair<std::string_view, double>, 13> maximum_ulps = {{{"exp", 1},
                                                                                 {"expm1", 1},
                                                                                 {"log", 1},
                                                                                 {"log1p", 1},
                                                                                 {"tanh", 1},
                                                                                 {"sin", 2},
                                                                                 {"cos", 2},
                                                                                 {"erf", 2},
                                                                                 {"tan", 2},
                                                                                 {"atan", 2},
                                                                                 {"sinh", 2},
                                                                                 {"cosh", 1},
                                                                                 {"pow", 2}}};
  std::vector<FunctionAccuracy> table;
  for (const auto& [function, ulps] : maximum_ulps) {
    table.push_back({std::string(function), 2.0 * ulps + 1.0, Evidence::documented, std::string(guide)});
  }
  table.push_back({"sigmoid", 6.6, Evidence::documented, std::string(derived)});
  table.push_back({"softplus", 7.1, Evidence::documented, std::string(derived)});
  table.push_back({"sqrt", 1.0, Evidence::documented, "IEEE 754, correctly rounded"});
  return table;
}

/// What is known of the tensor cores of an architecture; the weakest of all where nothing is.
TensorCore tensor_core_of(const driftbound_device_info& info, FormatId operands) {
  const int blocks_of_16_bits = 8, blocks_of_tf32 = 4;
  const int block = operands == FormatId::tf32 ? blocks_of_tf32 : blocks_of_16_bits;
  switch (info.compute_major) {
    case 8:
      return {24, block};
    case 9:
    case 10:
      return {25, block};
    default:
      return {23, 4};
  }
}

/// Everything but the order of vendor products.
ArithmeticModel common_arithmetic(const CudaOptions& options) {
  if (!options.order.gives_partial_sums() || options.order.kind == SummationOrder::Kind::dealt) {
    throw Unsupported("the CUDA evaluator needs an order of summation (ordered products, Softmax) and cannot run " +
                      to_string(options.order) + "; name one, for example blocked:8+fma");
  }
  ArithmeticModel arithmetic = cpu_arithmetic(options.arithmetic, options.order);
  arithmetic.source = "driftbound CUDA kernels";
  arithmetic.output = options.output.value_or(arithmetic.output);
  arithmetic.stores_declared_types = options.stores_declared_types;
  if (arithmetic.accumulator == FormatId::fp64) arithmetic.functions = cuda_double_functions();
  return arithmetic;
}

}  // namespace

ArithmeticModel cuda_arithmetic(const CudaOptions& options, const driftbound_device_info& info) {
  ArithmeticModel arithmetic = common_arithmetic(options);
  if (options.product == CudaProduct::ordered) return arithmetic;
  const std::string library = options.product == CudaProduct::by_algorithm ? "cuBLASLt " : "cuBLAS ";
  arithmetic.source = library + blas_version(info.blas_version) + " " + math_mode(options) + " on " + info.name +
                      " (compute capability " + std::to_string(info.compute_major) + "." +
                      std::to_string(info.compute_minor) + "), its order unknown; every other op by " +
                      arithmetic.source;
  arithmetic.order = {};
  arithmetic.products_may_flush = true;
  arithmetic.evidence = Evidence::assumed;
  if (arithmetic.input != arithmetic.accumulator) arithmetic.tensor_core = tensor_core_of(info, arithmetic.input);
  return arithmetic;
}

driftbound_gemm_mode gemm_mode(const CudaOptions& options) {
  return vendor_mode(options).mode;
}

std::string math_mode(const CudaOptions& options) {
  if (options.product != CudaProduct::ordered) return std::string(vendor_mode(options).name);
  return "driftbound's kernel in order " + to_string(options.order);
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string blas_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace driftbound::device
