// A libcublasLt on host memory, for tests of how the CUDA module calls it: it multiplies column-major matrices as its
// layouts say, checks every size against the attribute's, and offers two algorithms.
#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace {

struct Task {
  cublasComputeType_t compute;
  cudaDataType scale;
  std::int32_t transposes[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
};
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};
/// What an algorithm is, in the library's own bytes.
struct Algorithm {
  std::int32_t id, split_k;
  std::uint32_t tile, stages, reduction, swizzle, custom;
  std::uint16_t cluster;
};

constexpr Algorithm algorithms[] = {
    {6, 1, CUBLASLT_MATMUL_TILE_128x64, CUBLASLT_MATMUL_STAGES_32x3, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0, 0},
    {66, 4, CUBLASLT_MATMUL_TILE_UNDEFINED, 60000, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 1, 2,
     CUBLASLT_CLUSTER_SHAPE_2x1x1}};

template <class Own, class Theirs>
Own& own(Theirs* object) {
  return *reinterpret_cast<Own*>(object);
}

template <class Value>
cublasStatus_t set(Value& value, const void* from, std::size_t bytes) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value>
cublasStatus_t get(const Value& value, void* to, std::size_t bytes, std::size_t* written) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, &value, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/// Element (i, j) of a stored matrix, or of its transpose.
template <class Element>
Element element(const void* matrix, const Layout& layout, bool is_transposed, std::int64_t i, std::int64_t j) {
  if (is_transposed) std::swap(i, j);
  return static_cast<const Element*>(matrix)[i + j * layout.leading];
}

template <class Element>
cublasStatus_t multiply(const Task& task, const void* a, const Layout& a_layout, const void* b, const Layout& b_layout,
                        void* d, const Layout& d_layout) {
  const bool left = task.transposes[0] == CUBLAS_OP_T, right = task.transposes[1] == CUBLAS_OP_T;
  const std::uint64_t inner = left ? a_layout.rows : a_layout.columns;
  const bool fits = (left ? a_layout.columns : a_layout.rows) == d_layout.rows &&
                    (right ? b_layout.rows : b_layout.columns) == d_layout.columns &&
                    (right ? b_layout.columns : b_layout.rows) == inner;
  for (const Layout* layout : {&a_layout, &b_layout, &d_layout})
    if (layout->leading < static_cast<std::int64_t>(layout->rows)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(d_layout.columns); ++j)
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(d_layout.rows); ++i) {
      Element sum = 0;
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(inner); ++k)
        sum += element<Element>(a, a_layout, left, i, k) * element<Element>(b, b_layout, right, k, j);
      static_cast<Element*>(d)[i + j * d_layout.leading] = sum;
    }
  return CUBLAS_STATUS_SUCCESS;
}

int live = 0;
Preference last_preference;

}  // namespace

extern "C" {

/// Objects created and not destroyed; the alignments that were asked for last.
int fake_cublas_lt_live() {
  return live;
}
std::uint32_t fake_cublas_lt_alignment(int operand) {
  return last_preference.alignments[operand];
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  ++live;
  *handle = reinterpret_cast<cublasLtHandle_t>(&live);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  --live;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "another status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* task, cublasComputeType_t compute, cudaDataType_t scale) {
  ++live;
  *task = reinterpret_cast<cublasLtMatmulDesc_t>(new Task{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t task) {
  --live;
  delete &own<Task>(task);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t task, cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return set(own<Task>(task).transposes[0], from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return set(own<Task>(task).transposes[1], from, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  ++live;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  --live;
  delete &own<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  ++live;
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  --live;
  delete &own<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* from,
                                                    size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set(own<Preference>(preference).workspace, from, bytes);
  const int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (operand < 0 || operand > 3) return CUBLAS_STATUS_INVALID_VALUE;
  return set(own<Preference>(preference).alignments[operand], from, bytes);
}

/// The second algorithm needs workspace and 16 bytes of alignment; the last entry is one that cannot be used.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  last_preference = own<Preference>(preference);
  *count = 0;
  for (const Algorithm& algorithm : algorithms) {
    const bool is_second = algorithm.split_k > 1;
    if (is_second && (last_preference.workspace < 1024 || last_preference.alignments[0] < 16)) continue;
    if (*count == most) break;
    cublasLtMatmulHeuristicResult_t& result = found[(*count)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = is_second ? 1024 : 0;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  if (*count < most) found[(*count)++].state = CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* theirs,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* to,
                                                    size_t bytes, size_t* written) {
  const auto& algorithm = own<const Algorithm>(theirs);
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return get(algorithm.id, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return get(algorithm.tile, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return get(algorithm.split_k, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return get(algorithm.reduction, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
      return get(algorithm.swizzle, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
      return get(algorithm.custom, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      return get(algorithm.stages, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return get(algorithm.cluster, to, bytes, written);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

/// Algorithm 66 adds 1 to the first element of the result, so that it can be told.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t task, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void*,
                              size_t workspace, cudaStream_t) {
  const Task& asked = own<Task>(task);
  const Layout& result = own<Layout>(d_layout);
  const bool is_double = asked.compute == CUBLAS_COMPUTE_64F || asked.compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  const cudaDataType type = is_double ? CUDA_R_64F : CUDA_R_32F;
  const double one = is_double ? *static_cast<const double*>(alpha) : double{*static_cast<const float*>(alpha)};
  const double zero = is_double ? *static_cast<const double*>(beta) : double{*static_cast<const float*>(beta)};
  const bool is_sound = handle != nullptr && c == d && c_layout == d_layout && one == 1.0 && zero == 0.0 &&
                        asked.scale == type && result.type == type && own<Layout>(a_layout).type == type &&
                        own<Layout>(b_layout).type == type &&
                        (own<const Algorithm>(algorithm).split_k == 1 || workspace >= 1024);
  if (!is_sound) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status =
      is_double ? multiply<double>(asked, a, own<Layout>(a_layout), b, own<Layout>(b_layout), d, result)
                : multiply<float>(asked, a, own<Layout>(a_layout), b, own<Layout>(b_layout), d, result);
  if (status == CUBLAS_STATUS_SUCCESS && own<const Algorithm>(algorithm).id == 66) {
    if (is_double)
      *static_cast<double*>(d) += 1.0;
    else
      *static_cast<float*>(d) += 1.0F;
  }
  return status;
}
}
