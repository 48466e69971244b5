#include <immintrin.h>

#include "evaluate/kernels/product_kernel.hpp"

namespace driftbound {
namespace {

struct Floats {
  using Scalar = float;
  static constexpr std::size_t lanes = 8;
  __m256 v;

  static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Floats all(float x) { return {_mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  friend Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.v, y.v)}; }
  friend Floats mul(Floats x, Floats y) { return {_mm256_mul_ps(x.v, y.v)}; }
  friend Floats fma(Floats x, Floats y, Floats z) { return {_mm256_fmadd_ps(x.v, y.v, z.v)}; }
};

struct Doubles {
  using Scalar = double;
  static constexpr std::size_t lanes = 4;
  __m256d v;

  static Doubles load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Doubles all(double x) { return {_mm256_set1_pd(x)}; }
  void store(double* p) const { _mm256_storeu_pd(p, v); }
  friend Doubles add(Doubles x, Doubles y) { return {_mm256_add_pd(x.v, y.v)}; }
  friend Doubles mul(Doubles x, Doubles y) { return {_mm256_mul_pd(x.v, y.v)}; }
  friend Doubles fma(Doubles x, Doubles y, Doubles z) { return {_mm256_fmadd_pd(x.v, y.v, z.v)}; }
};

}  // namespace

const ProductKernels product_avx2 = {"avx2", &multiply_rows<Floats, 4>, &multiply_rows<Doubles, 4>,
                                     &multiply_sparse<Floats>, &multiply_sparse<Doubles>};

}  // namespace driftbound
