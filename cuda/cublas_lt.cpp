#include "cuda/cublas_lt.hpp"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "cuda/vendor.hpp"

namespace driftbound::device {

struct CublasLt::Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtMatmulDescCreate) create_task;
  decltype(&cublasLtMatmulDescDestroy) destroy_task;
  decltype(&cublasLtMatmulDescSetAttribute) set_of_task;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) attribute;
  decltype(&cublasLtMatmul) multiply;

  void check(cublasStatus_t status, const char* function) const {
    require_success(status, function, status_name(status));
  }
};

namespace {

/// The library's names of numbers, from its header: {kind, number, name}.
struct Named {
  const char* kind;
  std::uint32_t number;
  const char* name;
};
constexpr Named names[] = {
#include "cublas_lt_names.inc"
};

/// Leaves the name empty where the number means that nothing is chosen.
template <std::size_t size>
void set_name(char (&target)[size], const std::string& kind, std::uint32_t number) {
  for (const Named& named : names) {
    if (named.kind == kind && named.number == number) {
      if (std::string(named.name) != "UNDEFINED") std::snprintf(target, size, "%s", named.name);
      return;
    }
  }
  std::snprintf(target, size, "no. %u", number);
}

driftbound_split_reduction reduction_of(std::uint32_t scheme) {
  switch (scheme) {
    case CUBLASLT_REDUCTION_SCHEME_NONE:
      return DRIFTBOUND_SPLIT_NONE;
    case CUBLASLT_REDUCTION_SCHEME_INPLACE:
      return DRIFTBOUND_SPLIT_IN_PLACE;
    case CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE:
      return DRIFTBOUND_SPLIT_IN_SUM_TYPE;
    case CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE:
      return DRIFTBOUND_SPLIT_IN_RESULT_TYPE;
    default:
      return DRIFTBOUND_SPLIT_OTHER;
  }
}

/// The largest power of two up to 256 that divides an address: cudaMalloc gives no less.
std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  std::uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace

/// A product, as cuBLASLt describes it. It is column-major: C^T = B^T A^T, and what is row-major here is already
/// transposed.
class CublasLt::Task {
public:
  Task(const CublasLt& owner, driftbound_gemm_mode mode, const driftbound_product& product)
      : owner_(owner), library_(*owner.library_), product_(product), types_(types_of(mode)) {
    const Placed a = placed(product.m, product.k, product.a_row, product.a_col);
    const Placed b = placed(product.k, product.n, product.b_row, product.b_col);
    library_.check(library_.create_task(&task_.object, types_.compute, types_.result), "cublasLtMatmulDescCreate");
    task_.destroy = library_.destroy_task;
    set(CUBLASLT_MATMUL_DESC_TRANSA, b.operation);
    set(CUBLASLT_MATMUL_DESC_TRANSB, a.operation);
    place(left_, types_.operands, b, product.n, product.k);
    place(right_, types_.operands, a, product.k, product.m);
    place(result_, types_.result, {CUBLAS_OP_N, product.n}, product.n, product.m);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> offered() const {
    Owned<cublasLtMatmulPreference_t> preference;
    library_.check(library_.create_preference(&preference.object), "cublasLtMatmulPreferenceCreate");
    preference.destroy = library_.destroy_preference;
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      library_.check(library_.set_of_preference(preference.object, attribute, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{owner_.workspace_bytes_});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product_.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product_.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product_.c));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product_.c));
    std::vector<cublasLtMatmulHeuristicResult_t> found(DRIFTBOUND_DEVICE_MAX_ALGORITHMS);
    int count = 0;
    const cublasStatus_t status =
        library_.heuristic(handle(), task_.object, left_.object, right_.object, result_.object, result_.object,
                           preference.object, static_cast<int>(found.size()), found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    library_.check(status, "cublasLtMatmulAlgoGetHeuristic");
    found.resize(static_cast<std::size_t>(count));
    std::vector<cublasLtMatmulHeuristicResult_t> usable;
    for (const cublasLtMatmulHeuristicResult_t& one : found)
      if (one.state == CUBLAS_STATUS_SUCCESS) usable.push_back(one);
    return usable;
  }

  void multiply(const cublasLtMatmulAlgo_t& algorithm) const {
    const Scales scales;
    library_.check(library_.multiply(handle(), task_.object, scales.one(types_), product_.b, left_.object, product_.a,
                                     right_.object, scales.zero(types_), product_.c, result_.object, product_.c,
                                     result_.object, &algorithm, owner_.workspace_, owner_.workspace_bytes_,
                                     static_cast<cudaStream_t>(owner_.stream_)),
                   "cublasLtMatmul");
  }

  driftbound_algorithm described(const cublasLtMatmulHeuristicResult_t& offered) const {
    const auto ask = [&](cublasLtMatmulAlgoConfigAttributes_t name, auto value) {
      std::size_t written = 0;
      library_.check(library_.attribute(&offered.algo, name, &value, sizeof value, &written),
                     "cublasLtMatmulAlgoConfigGetAttribute");
      return value;
    };
    driftbound_algorithm algorithm{};
    algorithm.id = ask(CUBLASLT_ALGO_CONFIG_ID, std::int32_t{});
    set_name(algorithm.tile, "MATMUL_TILE", ask(CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t{}));
    set_name(algorithm.stages, "MATMUL_STAGES", ask(CUBLASLT_ALGO_CONFIG_STAGES_ID, std::uint32_t{}));
    set_name(algorithm.cluster, "CLUSTER_SHAPE", ask(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t{}));
    algorithm.split_k = ask(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{});
    algorithm.reduction = reduction_of(ask(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, std::uint32_t{}));
    algorithm.swizzle = ask(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, std::uint32_t{});
    algorithm.custom = ask(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, std::uint32_t{});
    algorithm.workspace_bytes = offered.workspaceSize;
    return algorithm;
  }

private:
  /// An object of the library, destroyed with this one.
  template <class Object>
  struct Owned {
    Object object = nullptr;
    cublasStatus_t(CUBLASWINAPI* destroy)(Object) = nullptr;

    Owned() = default;
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
      if (destroy != nullptr) destroy(object);
    }
  };

  cublasLtHandle_t handle() const { return static_cast<cublasLtHandle_t>(owner_.handle_); }

  void set(cublasLtMatmulDescAttributes_t attribute, cublasOperation_t operation) {
    const std::int32_t value = operation;
    library_.check(library_.set_of_task(task_.object, attribute, &value, sizeof value),
                   "cublasLtMatmulDescSetAttribute");
  }

  /// A matrix rows x columns in column-major order, or its transpose where the operation says so.
  void place(Owned<cublasLtMatrixLayout_t>& layout, cudaDataType type, const Placed& at, std::int64_t rows,
             std::int64_t columns) {
    if (at.operation == CUBLAS_OP_T) std::swap(rows, columns);
    library_.check(library_.create_layout(&layout.object, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), at.leading),
                   "cublasLtMatrixLayoutCreate");
    layout.destroy = library_.destroy_layout;
  }

  const CublasLt& owner_;
  const Library& library_;
  driftbound_product product_;
  Types types_;
  Owned<cublasLtMatmulDesc_t> task_;
  Owned<cublasLtMatrixLayout_t> left_, right_, result_;
};

CublasLt::CublasLt(void* stream, void* workspace, std::size_t workspace_bytes)
    : stream_(stream), workspace_(workspace), workspace_bytes_(workspace_bytes) {
  // cuBLAS, which is loaded already, is linked with this file: the loader has it.
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) no_cublas(dlerror());
  auto library = std::make_unique<Library>();
  bind(file, name, "cublasLtCreate", library->create);
  bind(file, name, "cublasLtDestroy", library->destroy);
  bind(file, name, "cublasLtGetStatusName", library->status_name);
  bind(file, name, "cublasLtMatmulDescCreate", library->create_task);
  bind(file, name, "cublasLtMatmulDescDestroy", library->destroy_task);
  bind(file, name, "cublasLtMatmulDescSetAttribute", library->set_of_task);
  bind(file, name, "cublasLtMatrixLayoutCreate", library->create_layout);
  bind(file, name, "cublasLtMatrixLayoutDestroy", library->destroy_layout);
  bind(file, name, "cublasLtMatmulPreferenceCreate", library->create_preference);
  bind(file, name, "cublasLtMatmulPreferenceDestroy", library->destroy_preference);
  bind(file, name, "cublasLtMatmulPreferenceSetAttribute", library->set_of_preference);
  bind(file, name, "cublasLtMatmulAlgoGetHeuristic", library->heuristic);
  bind(file, name, "cublasLtMatmulAlgoConfigGetAttribute", library->attribute);
  bind(file, name, "cublasLtMatmul", library->multiply);
  cublasLtHandle_t handle = nullptr;
  library->check(library->create(&handle), "cublasLtCreate");
  handle_ = handle;
  library_ = std::move(library);
}

CublasLt::~CublasLt() {
  library_->destroy(static_cast<cublasLtHandle_t>(handle_));
}

std::vector<driftbound_algorithm> CublasLt::algorithms(driftbound_gemm_mode mode,
                                                       const driftbound_product& product) const {
  const Task task(*this, mode, product);
  std::vector<driftbound_algorithm> all;
  for (const cublasLtMatmulHeuristicResult_t& one : task.offered()) all.push_back(task.described(one));
  return all;
}

driftbound_algorithm CublasLt::multiply(driftbound_gemm_mode mode, const driftbound_product& product,
                                        std::int32_t algorithm) const {
  const Task task(*this, mode, product);
  const std::vector<cublasLtMatmulHeuristicResult_t> all = task.offered();
  require_algorithm(algorithm, all.size());
  const cublasLtMatmulHeuristicResult_t& chosen = all[static_cast<std::size_t>(algorithm)];
  task.multiply(chosen.algo);
  return task.described(chosen);
}

}  // namespace driftbound::device
