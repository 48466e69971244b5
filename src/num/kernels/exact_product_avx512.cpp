#include <immintrin.h>

#include "num/kernels/exact_product_kernel.hpp"

namespace driftbound::num {
namespace {

struct Doubles {
  typedef float Floats __attribute__((vector_size(64)));
  typedef std::int32_t Integers __attribute__((vector_size(64)));
  typedef std::int16_t Shorts __attribute__((vector_size(32)));
  static constexpr std::size_t lanes = 8;
  __m512d v;

  static Doubles load(const double* p) { return {_mm512_loadu_pd(p)}; }
  // Without a mask GCC 12 warns of its own header.
  static Doubles widen(const float* p) { return {_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p))}; }
  static Doubles all(double x) { return {_mm512_set1_pd(x)}; }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
  friend Doubles add(Doubles x, Doubles y) { return {_mm512_add_pd(x.v, y.v)}; }
  friend Doubles sub(Doubles x, Doubles y) { return {_mm512_sub_pd(x.v, y.v)}; }
  friend Doubles mul(Doubles x, Doubles y) { return {_mm512_mul_pd(x.v, y.v)}; }
  friend Doubles fma(Doubles x, Doubles y, Doubles z) { return {_mm512_fmadd_pd(x.v, y.v, z.v)}; }
  friend Doubles fms(Doubles x, Doubles y, Doubles z) { return {_mm512_fmsub_pd(x.v, y.v, z.v)}; }
};

}  // namespace

const ExactKernels exact_avx512 = exact_kernels<Doubles, 6, 2>("avx512");

}  // namespace driftbound::num
