#pragma once

// The register width of the instruction set that a kernel is compiled for, and wrappers of instructions that have no
// operator in C++.

#include <cstddef>
#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace driftbound::simd {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t register_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t register_bytes = 32;
#else
constexpr std::size_t register_bytes = 16;
#endif

/// Whether the instruction set has a fused multiply-add, so that multiply_add() rounds once.
#ifdef __FMA__
constexpr bool has_fma = true;
#else
constexpr bool has_fma = false;
#endif

#ifdef __x86_64__
// The AVX-512 versions use masked intrinsics with all lanes set: GCC 12 warns about its own header for the others.
#define DRIFTBOUND_SIMD_INSTRUCTIONS(Register, prefix, suffix, ...) \
  inline Register instruction_min(Register a, Register b) {         \
    return prefix##min_##suffix(__VA_ARGS__ a, b);                  \
  }                                                                 \
  inline Register instruction_max(Register a, Register b) {         \
    return prefix##max_##suffix(__VA_ARGS__ a, b);                  \
  }                                                                 \
  inline Register instruction_sqrt(Register a) {                    \
    return prefix##sqrt_##suffix(__VA_ARGS__ a);                    \
  }
#define DRIFTBOUND_SIMD_FMA(Register, intrinsic)                        \
  inline Register instruction_fma(Register a, Register b, Register c) { \
    return intrinsic(a, b, c);                                          \
  }
DRIFTBOUND_SIMD_INSTRUCTIONS(__m128, _mm_, ps)
DRIFTBOUND_SIMD_INSTRUCTIONS(__m128d, _mm_, pd)
#ifdef __AVX2__
DRIFTBOUND_SIMD_INSTRUCTIONS(__m256, _mm256_, ps)
DRIFTBOUND_SIMD_INSTRUCTIONS(__m256d, _mm256_, pd)
DRIFTBOUND_SIMD_FMA(__m128, _mm_fmadd_ps)
DRIFTBOUND_SIMD_FMA(__m128d, _mm_fmadd_pd)
DRIFTBOUND_SIMD_FMA(__m256, _mm256_fmadd_ps)
DRIFTBOUND_SIMD_FMA(__m256d, _mm256_fmadd_pd)
#endif
#ifdef __AVX512F__
DRIFTBOUND_SIMD_INSTRUCTIONS(__m512, _mm512_maskz_, ps, 0xffff, )
DRIFTBOUND_SIMD_INSTRUCTIONS(__m512d, _mm512_maskz_, pd, 0xff, )
DRIFTBOUND_SIMD_FMA(__m512, _mm512_fmadd_ps)
DRIFTBOUND_SIMD_FMA(__m512d, _mm512_fmadd_pd)
#endif
#ifdef __AVX2__
/// Loads `count` numbers and sets the remaining lanes to 0. No memory beyond them is read. The last argument only
/// selects the register type.
inline __m256 instruction_load(const float* p, std::size_t count, __m256) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane));
}
inline __m256d instruction_load(const double* p, std::size_t count, __m256d) {
  const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
  return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(count)), lane));
}
// GCC 12 compiles its generic conversions between vectors of float and of double to several instructions each.
inline __m256d instruction_convert(__m128 x) {
  return _mm256_cvtps_pd(x);
}
inline __m128 instruction_convert(__m256d x) {
  return _mm256_cvtpd_ps(x);
}
#endif
#ifdef __AVX512F__
inline __m512d instruction_convert(__m256 x) {
  return _mm512_maskz_cvtps_pd(0xff, x);
}
inline __m256 instruction_convert(__m512d x) {
  return _mm512_maskz_cvtpd_ps(0xff, x);
}
inline __m512 instruction_load(const float* p, std::size_t count, __m512) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), p);
}
inline __m512d instruction_load(const double* p, std::size_t count, __m512d) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1U << count) - 1), p);
}
#endif
#undef DRIFTBOUND_SIMD_INSTRUCTIONS
#undef DRIFTBOUND_SIMD_FMA
#endif

template <class T>
constexpr bool is_real = false;
template <>
constexpr bool is_real<float> = true;
template <>
constexpr bool is_real<double> = true;

/// Whether instruction_min(), instruction_max() and instruction_sqrt() exist for n numbers of type T that fill one
/// register.
#ifdef __x86_64__
template <class T, std::size_t n>
constexpr bool has_instructions = is_real<T>&& n * sizeof(T) >= 16;
#else
template <class T, std::size_t n>
constexpr bool has_instructions = false;
#endif

/// Whether instruction_load() exists for n numbers of type T that fill one register.
template <class T, std::size_t n>
constexpr bool has_partial_load = has_instructions<T, n>&& n * sizeof(T) >= 32;

/// Whether instruction_convert() exists for n numbers of type T and type U.
template <class T, class U, std::size_t n>
constexpr bool has_conversion = is_real<T>&& is_real<U> &&
                                sizeof(T) != sizeof(U) && register_bytes > 16 && n * sizeof(double) >= 32;

}  // namespace
}  // namespace driftbound::simd
