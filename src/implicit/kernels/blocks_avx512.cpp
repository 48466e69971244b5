#include <immintrin.h>

#include "implicit/kernels/blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

struct Doubles {
  using Real = double;
  static constexpr std::size_t lanes = 8;
  static constexpr std::size_t outputs = 8;  ///< of a tile, computed together
  __m512d v;

  static Doubles load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Doubles all(double x) { return {_mm512_set1_pd(x)}; }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
  friend Doubles add(Doubles x, Doubles y) { return {_mm512_add_pd(x.v, y.v)}; }
  friend Doubles subtract(Doubles x, Doubles y) { return {_mm512_sub_pd(x.v, y.v)}; }
  friend Doubles multiply(Doubles x, Doubles y) { return {_mm512_mul_pd(x.v, y.v)}; }
  friend Doubles divide(Doubles x, Doubles y) { return {_mm512_div_pd(x.v, y.v)}; }
  friend Doubles maximum(Doubles x, Doubles y) { return {_mm512_maskz_max_pd(0xff, x.v, y.v)}; }
  friend Doubles minimum(Doubles x, Doubles y) { return {_mm512_maskz_min_pd(0xff, x.v, y.v)}; }
  friend Doubles multiply_add(Doubles x, Doubles y, Doubles z) { return {_mm512_fmadd_pd(x.v, y.v, z.v)}; }
  /// max(x, 0); the second operand where one is NaN, so that NaN stays
  friend Doubles rectified_of(Doubles x) { return {_mm512_maskz_max_pd(0xff, _mm512_setzero_pd(), x.v)}; }
  friend Doubles negative_of(Doubles x) { return {_mm512_maskz_min_pd(0xff, _mm512_setzero_pd(), x.v)}; }
  /// y where x < 0, else x
  friend Doubles where_negative(Doubles x, Doubles y) {
    return {_mm512_mask_blend_pd(_mm512_cmp_pd_mask(x.v, _mm512_setzero_pd(), _CMP_LT_OQ), x.v, y.v)};
  }
};

struct Floats {
  using Real = float;
  static constexpr std::size_t lanes = 16;
  static constexpr std::size_t outputs = 8;  ///< of a tile, computed together
  __m512 v;

  static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Floats all(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  friend Floats add(Floats x, Floats y) { return {_mm512_add_ps(x.v, y.v)}; }
  friend Floats subtract(Floats x, Floats y) { return {_mm512_sub_ps(x.v, y.v)}; }
  friend Floats multiply(Floats x, Floats y) { return {_mm512_mul_ps(x.v, y.v)}; }
  friend Floats divide(Floats x, Floats y) { return {_mm512_div_ps(x.v, y.v)}; }
  friend Floats maximum(Floats x, Floats y) { return {_mm512_maskz_max_ps(0xffff, x.v, y.v)}; }
  friend Floats minimum(Floats x, Floats y) { return {_mm512_maskz_min_ps(0xffff, x.v, y.v)}; }
  friend Floats multiply_add(Floats x, Floats y, Floats z) { return {_mm512_fmadd_ps(x.v, y.v, z.v)}; }
  /// max(x, 0); the second operand where one is NaN, so that NaN stays
  friend Floats rectified_of(Floats x) { return {_mm512_maskz_max_ps(0xffff, _mm512_setzero_ps(), x.v)}; }
  friend Floats negative_of(Floats x) { return {_mm512_maskz_min_ps(0xffff, _mm512_setzero_ps(), x.v)}; }
  /// y where x < 0, else x
  friend Floats where_negative(Floats x, Floats y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_LT_OQ), x.v, y.v)};
  }
};

struct Vectors {
  static constexpr std::size_t lanes = 8;
  typedef double Doubles __attribute__((vector_size(64)));
  typedef std::int64_t Integers __attribute__((vector_size(64)));
  using Real = double;
  using Reals = Doubles;

  static Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
};

struct FloatVectors {
  static constexpr std::size_t lanes = 16;
  typedef float Reals __attribute__((vector_size(64)));
  typedef std::int32_t Integers __attribute__((vector_size(64)));
  using Real = float;

  static Reals fma(Reals a, Reals b, Reals c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace

const BlockKernels blocks_avx512 = block_kernels<Doubles, Vectors>("avx512");
const FloatBlockKernels float_blocks_avx512 = float_block_kernels<Floats, FloatVectors>("avx512");

}  // namespace driftbound::implicit
