#include <immintrin.h>

#include "num/kernels/exact_product_kernel.hpp"

namespace driftbound::num {
namespace {

struct Doubles {
  typedef float Floats __attribute__((vector_size(32)));
  typedef std::int32_t Integers __attribute__((vector_size(32)));
  typedef std::int16_t Shorts __attribute__((vector_size(16)));
  static constexpr std::size_t lanes = 4;
  __m256d v;

  static Doubles load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Doubles widen(const float* p) { return {_mm256_cvtps_pd(_mm_loadu_ps(p))}; }
  static Doubles all(double x) { return {_mm256_set1_pd(x)}; }
  void store(double* p) const { _mm256_storeu_pd(p, v); }
  friend Doubles add(Doubles x, Doubles y) { return {_mm256_add_pd(x.v, y.v)}; }
  friend Doubles sub(Doubles x, Doubles y) { return {_mm256_sub_pd(x.v, y.v)}; }
  friend Doubles mul(Doubles x, Doubles y) { return {_mm256_mul_pd(x.v, y.v)}; }
  friend Doubles fma(Doubles x, Doubles y, Doubles z) { return {_mm256_fmadd_pd(x.v, y.v, z.v)}; }
  friend Doubles fms(Doubles x, Doubles y, Doubles z) { return {_mm256_fmsub_pd(x.v, y.v, z.v)}; }
};

}  // namespace

const ExactKernels exact_avx2 = exact_kernels<Doubles, 3, 2>("avx2");

}  // namespace driftbound::num
