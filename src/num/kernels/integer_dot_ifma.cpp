#include <immintrin.h>

#include "num/kernels/integer_dot.hpp"

namespace driftbound::num {
namespace {

/// Where the bytes of eight integers of 48 bits go: the low six of every eight.
alignas(64) constexpr std::uint8_t widen[64] = {0,  1,  2,  3,  4,  5,  0, 0, 6,  7,  8,  9,  10, 11, 0, 0,
                                                12, 13, 14, 15, 16, 17, 0, 0, 18, 19, 20, 21, 22, 23, 0, 0,
                                                24, 25, 26, 27, 28, 29, 0, 0, 30, 31, 32, 33, 34, 35, 0, 0,
                                                36, 37, 38, 39, 40, 41, 0, 0, 42, 43, 44, 45, 46, 47, 0, 0};

/// By way of memory: GCC 12 warns of its own header where it takes a half of a vector.
__m256i halves(__m512i x) {
  alignas(64) __m256i half[2];
  _mm512_store_si512(half, x);
  return _mm256_add_epi64(half[0], half[1]);
}

/// The sums of the lanes of four vectors.
void totals(const __m512i (&x)[integer_rows], std::uint64_t* sums) {
  const __m256i a = halves(x[0]), b = halves(x[1]), c = halves(x[2]), d = halves(x[3]);
  const __m256i ab = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  const __m256i cd = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
  const __m256i all =
      _mm256_add_epi64(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), all);
}

void dot(const std::uint8_t* a, const std::uint64_t* b, std::size_t length, std::uint64_t* low, std::uint64_t* high) {
  const __m512i places = _mm512_load_si512(widen);
  __m512i lows[integer_rows], highs[integer_rows];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < integer_rows; ++r) lows[r] = highs[r] = _mm512_setzero_si512();
  for (std::size_t l = 0; l < length; l += integer_lanes, a += integer_step) {
    const __m512i factor = _mm512_loadu_si512(b + l);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < integer_rows; ++r) {
      const __m512i bytes = _mm512_loadu_si512(a + integer_place(r, 0));
      const __m512i element = _mm512_maskz_permutexvar_epi8(0x3f3f3f3f3f3f3f3f, places, bytes);
      lows[r] = _mm512_madd52lo_epu64(lows[r], element, factor);
      highs[r] = _mm512_madd52hi_epu64(highs[r], element, factor);
    }
  }
  totals(lows, low);
  totals(highs, high);
}

}  // namespace

const IntegerKernels integers_ifma = {"ifma", &dot};

}  // namespace driftbound::num
