#include <immintrin.h>

#include "implicit/kernels/blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

struct Doubles {
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

struct Vectors {
  static constexpr std::size_t lanes = 8;
  typedef double Doubles __attribute__((vector_size(64)));
  typedef std::int64_t Integers __attribute__((vector_size(64)));
  using Real = double;
  using Reals = Doubles;

  static Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
};

}  // namespace

const BlockKernels blocks_avx512 = block_kernels<Doubles, Vectors>("avx512");

}  // namespace driftbound::implicit
