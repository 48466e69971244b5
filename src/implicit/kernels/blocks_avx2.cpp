#include <immintrin.h>

#include "implicit/kernels/blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

struct Doubles {
  using Real = double;
  static constexpr std::size_t lanes = 4;
  static constexpr std::size_t outputs = 4;  ///< of a tile, computed together
  __m256d v;

  static Doubles load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Doubles all(double x) { return {_mm256_set1_pd(x)}; }
  void store(double* p) const { _mm256_storeu_pd(p, v); }
  friend Doubles add(Doubles x, Doubles y) { return {_mm256_add_pd(x.v, y.v)}; }
  friend Doubles subtract(Doubles x, Doubles y) { return {_mm256_sub_pd(x.v, y.v)}; }
  friend Doubles multiply(Doubles x, Doubles y) { return {_mm256_mul_pd(x.v, y.v)}; }
  friend Doubles divide(Doubles x, Doubles y) { return {_mm256_div_pd(x.v, y.v)}; }
  friend Doubles maximum(Doubles x, Doubles y) { return {_mm256_max_pd(x.v, y.v)}; }
  friend Doubles minimum(Doubles x, Doubles y) { return {_mm256_min_pd(x.v, y.v)}; }
  friend Doubles multiply_add(Doubles x, Doubles y, Doubles z) { return {_mm256_fmadd_pd(x.v, y.v, z.v)}; }
  /// max(x, 0); the second operand where one is NaN, so that NaN stays
  friend Doubles rectified_of(Doubles x) { return {_mm256_max_pd(_mm256_setzero_pd(), x.v)}; }
  friend Doubles negative_of(Doubles x) { return {_mm256_min_pd(_mm256_setzero_pd(), x.v)}; }
  /// y where x < 0, else x
  friend Doubles where_negative(Doubles x, Doubles y) {
    return {_mm256_blendv_pd(x.v, y.v, _mm256_cmp_pd(x.v, _mm256_setzero_pd(), _CMP_LT_OQ))};
  }
};

struct Floats {
  using Real = float;
  static constexpr std::size_t lanes = 8;
  static constexpr std::size_t outputs = 4;  ///< of a tile, computed together
  __m256 v;

  static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Floats all(float x) { return {_mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  friend Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.v, y.v)}; }
  friend Floats subtract(Floats x, Floats y) { return {_mm256_sub_ps(x.v, y.v)}; }
  friend Floats multiply(Floats x, Floats y) { return {_mm256_mul_ps(x.v, y.v)}; }
  friend Floats divide(Floats x, Floats y) { return {_mm256_div_ps(x.v, y.v)}; }
  friend Floats maximum(Floats x, Floats y) { return {_mm256_max_ps(x.v, y.v)}; }
  friend Floats minimum(Floats x, Floats y) { return {_mm256_min_ps(x.v, y.v)}; }
  friend Floats multiply_add(Floats x, Floats y, Floats z) { return {_mm256_fmadd_ps(x.v, y.v, z.v)}; }
  /// max(x, 0); the second operand where one is NaN, so that NaN stays
  friend Floats rectified_of(Floats x) { return {_mm256_max_ps(_mm256_setzero_ps(), x.v)}; }
  friend Floats negative_of(Floats x) { return {_mm256_min_ps(_mm256_setzero_ps(), x.v)}; }
  /// y where x < 0, else x
  friend Floats where_negative(Floats x, Floats y) {
    return {_mm256_blendv_ps(x.v, y.v, _mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_LT_OQ))};
  }
};

struct Vectors {
  static constexpr std::size_t lanes = 4;
  typedef double Doubles __attribute__((vector_size(32)));
  typedef std::int64_t Integers __attribute__((vector_size(32)));
  using Real = double;
  using Reals = Doubles;

  static Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
};

struct FloatVectors {
  static constexpr std::size_t lanes = 8;
  typedef float Reals __attribute__((vector_size(32)));
  typedef std::int32_t Integers __attribute__((vector_size(32)));
  using Real = float;

  static Reals fma(Reals a, Reals b, Reals c) { return _mm256_fmadd_ps(a, b, c); }
};

}  // namespace

const BlockKernels blocks_avx2 = block_kernels<Doubles, Vectors>("avx2");
const FloatBlockKernels float_blocks_avx2 = float_block_kernels<Floats, FloatVectors>("avx2");

}  // namespace driftbound::implicit
