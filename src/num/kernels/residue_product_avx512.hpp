#pragma once

#include <immintrin.h>

#include "num/kernels/residue_product_kernel.hpp"

namespace driftbound::num {
namespace {

struct Doubles {
  static constexpr std::size_t lanes = 8;
  __m512d v;

  static Doubles load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Doubles all(double x) { return {_mm512_set1_pd(x)}; }
  // Without masks GCC 12 warns of its own header.
  static Doubles from_integers(const std::int32_t* p) {
    return {_mm512_maskz_cvtepi32_pd(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
  void store_last_bytes(std::uint8_t* p) const { _mm512_mask_cvtepi64_storeu_epi8(p, 0xff, _mm512_castpd_si512(v)); }
  friend Doubles add(Doubles x, Doubles y) { return {_mm512_add_pd(x.v, y.v)}; }
  friend Doubles sub(Doubles x, Doubles y) { return {_mm512_sub_pd(x.v, y.v)}; }
  friend Doubles mul(Doubles x, Doubles y) { return {_mm512_mul_pd(x.v, y.v)}; }
  friend Doubles fma(Doubles x, Doubles y, Doubles z) { return {_mm512_fmadd_pd(x.v, y.v, z.v)}; }
  friend Doubles fnma(Doubles x, Doubles y, Doubles z) { return {_mm512_fnmadd_pd(x.v, y.v, z.v)}; }
  friend Doubles raised(Doubles x, Doubles p) {
    return {_mm512_mask_add_pd(x.v, _mm512_cmp_pd_mask(x.v, _mm512_setzero_pd(), _CMP_LT_OQ), x.v, p.v)};
  }
  friend Doubles magnitude(Doubles x) { return {_mm512_abs_pd(x.v)}; }
};

}  // namespace
}  // namespace driftbound::num
