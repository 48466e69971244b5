#pragma once

#include "linalg/kernels/residue_product_kernel.hpp"

namespace driftbound::linalg {
namespace {

// Without masks GCC 12 warns of its own header.

/// Of sixteen neighbours the lower halves come first, then the upper ones.
void keep_digits(Vector integers, double* digits, std::size_t l) {
  const __m512i bits = reinterpret_cast<__m512i>((integers + to_integer).v);
  auto* const target = reinterpret_cast<std::int32_t*>(digits + l / 16 * 16) + l % 16;
  _mm512_mask_cvtepi64_storeu_epi32(target, 0xff, bits);
  _mm512_mask_cvtepi64_storeu_epi32(target + 16, 0xff, _mm512_maskz_srli_epi64(0xff, bits, 32));
}
Vector widened(const std::int16_t* p) {
  const __m128i integers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Vector::of(_mm512_maskz_cvtepi32_pd(0xff, _mm256_cvtepi16_epi32(integers)));
}
Vector gathered(const double* p, const std::int32_t* places) {
  const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
  return Vector::of(_mm512_mask_i32gather_pd(_mm512_setzero_pd(), 0xff, index, p, sizeof *p));
}

constexpr __mmask16 all_lanes = 0xffff;

/// Integers modulo p.
struct Reduction {
  __m512 inverse, half;
  __m512i p;

  explicit Reduction(const Modulus& modulus)
      : inverse(_mm512_set1_ps(1.0F / static_cast<float>(modulus.p))),
        half(_mm512_set1_ps(0.5F / static_cast<float>(modulus.p))),
        p(_mm512_set1_epi32(modulus.p)) {}

  __m512i less(__m512i x, __m512i multiple) const { return _mm512_sub_epi32(x, _mm512_mullo_epi32(multiple, p)); }

  /// Of sums of at most chunks_at_once chunks and a residue: at most largest_residue. Below 2^20: the nearest to 0.
  __m512i near_zero(__m512i x) const {
    const __m512 quotient = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(all_lanes, x), inverse);
    return less(x, _mm512_maskz_cvtps_epi32(all_lanes, quotient));
  }
  /// In [0, p), for integers below 2^20.
  __m512i from_zero(__m512i x) const {
    constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    const __m512 quotient = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(all_lanes, x), inverse, half);
    return less(x, _mm512_maskz_cvt_roundps_epi32(all_lanes, quotient, down));
  }
};

__m512i four_bytes_everywhere(const void* bytes) {
  std::int32_t four;
  __builtin_memcpy(&four, bytes, sizeof four);
  return _mm512_set1_epi32(four);
}

/// sum += the products of unsigned bytes with signed ones, four at a time. gcc 12 copies sums to and fro around its
/// intrinsic.
void add_products(__m512i& sum, __m512i bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
}

template <bool is_left>
void residues(const double* digits, std::size_t count, std::size_t length, const Modulus& modulus, std::size_t step,
              std::uint8_t* bytes) {
  const Reduction reduction(modulus);
  __m512i lower[most_digits], upper[most_digits];
  for (std::size_t i = 0; i < count; ++i) {
    lower[i] = four_bytes_everywhere(modulus.byte + i * limb_bytes);
    upper[i] = four_bytes_everywhere(modulus.byte + i * limb_bytes + 4);
  }
  for (std::size_t l = 0; l < length; l += 16) {
    __m512i x = _mm512_set1_epi32(modulus.offset[count - 1]);
    for (std::size_t i = 0; i < count; ++i) {
      const double* const digit = digits + i * length + l;
      add_products(x, _mm512_loadu_si512(digit), lower[i]);
      add_products(x, _mm512_loadu_si512(digit + 8), upper[i]);
    }
    const __m512i r = is_left ? reduction.from_zero(x) : reduction.near_zero(x);
    std::uint8_t* const target = bytes + l / residue_steps * step + l % residue_steps;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm512_maskz_cvtepi32_epi8(all_lanes, r));
  }
}

constexpr ResidueKernels vector_kernels(decltype(ResidueKernels::multiply) multiply) {
  return residue_kernels(&residues<true>, &residues<false>, multiply);
}

void store_residues(std::int16_t* target, __m512i residues) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_maskz_cvtepi32_epi16(all_lanes, residues));
}

}  // namespace
}  // namespace driftbound::linalg
