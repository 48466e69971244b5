#pragma once

// Eight numbers at a time, for the kernels of this folder alone: internal linkage, as each is compiled for another
// processor. Lanes are elements; every operation is one IEEE rounding to nearest.

#include <cstddef>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace driftbound::bounds {
namespace {

constexpr std::size_t lanes = 8;
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using FloatBits = int __attribute__((vector_size(lanes * sizeof(float))));

/// The number 8 as a type: loops over whole vectors know at compile time that they are whole.
struct Whole {
  constexpr operator std::size_t() const { return lanes; }
};

#ifdef __AVX512F__
using Doubles = double __attribute__((vector_size(lanes * sizeof(double))));
using Bits = long long __attribute__((vector_size(lanes * sizeof(double))));

inline Doubles all(double x) {
  return Doubles{x, x, x, x, x, x, x, x};
}
/// a where the condition holds, b elsewhere.
inline Doubles where(const Bits& condition, const Doubles& a, const Doubles& b) {
  return condition ? a : b;
}
inline Bits bits_of(const Doubles& x) {
  return reinterpret_cast<Bits>(x);
}
inline Doubles doubles_of(const Bits& x) {
  return reinterpret_cast<Doubles>(x);
}
inline Floats floats_of(const Doubles& x) {
  return __builtin_convertvector(x, Floats);
}
inline Doubles doubles_of(const Floats& x) {
  return __builtin_convertvector(x, Doubles);
}
inline Doubles roots_of(const Doubles& x) {
  return reinterpret_cast<Doubles>(_mm512_maskz_sqrt_pd(0xff, reinterpret_cast<__m512d>(x)));
}
inline Doubles eight_from(const double* p, std::size_t count) {
  Doubles result = {};
  __builtin_memcpy(&result, p, count * sizeof(double));
  return result;
}
inline void eight_to(double* p, const Doubles& x, std::size_t count) {
  __builtin_memcpy(p, &x, count * sizeof(double));
}
#else
// Halves: compilers compare vectors that are wider than the processor's number by number.
using FourDoubles = double __attribute__((vector_size(4 * sizeof(double))));
using FourBits = long long __attribute__((vector_size(4 * sizeof(double))));
using FourFloats = float __attribute__((vector_size(4 * sizeof(float))));

struct Bits {
  FourBits low = {}, high = {};

  long long operator[](std::size_t j) const { return j < 4 ? low[j] : high[j - 4]; }
  friend Bits operator&(const Bits& x, const Bits& y) { return {x.low & y.low, x.high & y.high}; }
  friend Bits operator|(const Bits& x, const Bits& y) { return {x.low | y.low, x.high | y.high}; }
  friend Bits operator&(const Bits& x, long long y) { return {x.low & y, x.high & y}; }
  friend Bits operator<<(const Bits& x, int places) { return {x.low << places, x.high << places}; }
  Bits& operator&=(const Bits& y) { return *this = *this & y; }
  Bits& operator|=(const Bits& y) { return *this = *this | y; }
};

struct Doubles {
  FourDoubles low = {}, high = {};

  Doubles() = default;
  Doubles(const FourDoubles& first, const FourDoubles& second) : low(first), high(second) {}
  Doubles(double x) : low{x, x, x, x}, high{x, x, x, x} {}  // NOLINT(google-explicit-constructor): as vectors have it
  double operator[](std::size_t j) const { return j < 4 ? low[j] : high[j - 4]; }
  friend Doubles operator+(const Doubles& x, const Doubles& y) { return {x.low + y.low, x.high + y.high}; }
  friend Doubles operator-(const Doubles& x, const Doubles& y) { return {x.low - y.low, x.high - y.high}; }
  friend Doubles operator*(const Doubles& x, const Doubles& y) { return {x.low * y.low, x.high * y.high}; }
  friend Doubles operator/(const Doubles& x, const Doubles& y) { return {x.low / y.low, x.high / y.high}; }
  Doubles& operator+=(const Doubles& y) { return *this = *this + y; }
  Doubles& operator*=(const Doubles& y) { return *this = *this * y; }
  friend Bits operator<(const Doubles& x, const Doubles& y) { return {x.low < y.low, x.high < y.high}; }
  friend Bits operator>(const Doubles& x, const Doubles& y) { return {x.low > y.low, x.high > y.high}; }
  friend Bits operator<=(const Doubles& x, const Doubles& y) { return {x.low <= y.low, x.high <= y.high}; }
  friend Bits operator>=(const Doubles& x, const Doubles& y) { return {x.low >= y.low, x.high >= y.high}; }
  friend Bits operator==(const Doubles& x, const Doubles& y) { return {x.low == y.low, x.high == y.high}; }
  friend Bits operator!=(const Doubles& x, const Doubles& y) { return {x.low != y.low, x.high != y.high}; }
};

inline Doubles all(double x) {
  return {x};
}
/// a where the condition holds, b elsewhere.
inline Doubles where(const Bits& condition, const Doubles& a, const Doubles& b) {
  return {condition.low ? a.low : b.low, condition.high ? a.high : b.high};
}
inline Bits bits_of(const Doubles& x) {
  return {reinterpret_cast<FourBits>(x.low), reinterpret_cast<FourBits>(x.high)};
}
inline Doubles doubles_of(const Bits& x) {
  return {reinterpret_cast<FourDoubles>(x.low), reinterpret_cast<FourDoubles>(x.high)};
}
inline Floats floats_of(const Doubles& x) {
  const FourFloats halves[2] = {__builtin_convertvector(x.low, FourFloats),
                                __builtin_convertvector(x.high, FourFloats)};
  Floats result;
  __builtin_memcpy(&result, halves, sizeof result);
  return result;
}
inline Doubles doubles_of(const Floats& x) {
  FourFloats halves[2];
  __builtin_memcpy(halves, &x, sizeof x);
  return {__builtin_convertvector(halves[0], FourDoubles), __builtin_convertvector(halves[1], FourDoubles)};
}
inline FourDoubles roots_of(const FourDoubles& x) {
#ifdef __AVX__
  return reinterpret_cast<FourDoubles>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(x)));
#else
  return FourDoubles{__builtin_sqrt(x[0]), __builtin_sqrt(x[1]), __builtin_sqrt(x[2]), __builtin_sqrt(x[3])};
#endif
}
inline Doubles roots_of(const Doubles& x) {
  return {roots_of(x.low), roots_of(x.high)};
}
inline Doubles eight_from(const double* p, Whole) {
  FourDoubles low, high;
  __builtin_memcpy(&low, p, sizeof low);
  __builtin_memcpy(&high, p + 4, sizeof high);
  return {low, high};
}
inline Doubles eight_from(const double* p, std::size_t count) {
  if (count == lanes) return eight_from(p, Whole());
  FourDoubles halves[2] = {};
  __builtin_memcpy(halves, p, count * sizeof(double));
  return {halves[0], halves[1]};
}
inline void eight_to(double* p, const Doubles& x, Whole) {
  __builtin_memcpy(p, &x.low, sizeof x.low);
  __builtin_memcpy(p + 4, &x.high, sizeof x.high);
}
inline void eight_to(double* p, const Doubles& x, std::size_t count) {
  const FourDoubles halves[2] = {x.low, x.high};
  __builtin_memcpy(p, halves, count * sizeof(double));
}
#endif

constexpr double infinity = __builtin_inf();
constexpr double largest_double = 0x1.fffffffffffffp+1023;
constexpr float largest_float = 0x1.fffffep+127F;
constexpr double smallest_normal = 0x1p-1022;
/// Next double or beyond: makes up for one rounding to nearest of a number that is 0 or at least 2^-1022.
constexpr double one_up = 1.0 + 0x1p-52;
/// Makes up for fewer than 2^12 roundings to nearest; what underflows below 2^-1022 is less than `lost`.
constexpr double many_up = 1.0 + 0x1p-40;
constexpr double lost = 0x1p-1000;

/// `count` of 8 numbers, 0 in place of the others.
template <class Count>
inline Doubles load(const double* p, Count count) {
  return eight_from(p, count);
}
template <class Count>
inline Floats load(const float* p, Count count) {
  Floats v = {};
  __builtin_memcpy(&v, p, std::size_t{count} * sizeof(float));
  return v;
}
template <class Count>
inline Doubles load_or_zero(const double* p, std::size_t i, Count count) {
  return p == nullptr ? Doubles{} : load(p + i, count);
}
template <class Count>
inline void store(double* p, const Doubles& v, Count count) {
  eight_to(p, v, count);
}
template <class Count>
inline void store(float* p, const Floats& v, Count count) {
  __builtin_memcpy(p, &v, std::size_t{count} * sizeof(float));
}

/// body(first, count) for 8 elements at a time, and once for those that are left.
template <class Body>
inline void each(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, Whole());
  if (i < n) body(i, n - i);
}

inline Doubles magnitude(const Doubles& x) {
  return doubles_of(bits_of(x) & 0x7fffffffffffffffLL);
}
inline Floats magnitude(const Floats& x) {
  return reinterpret_cast<Floats>(reinterpret_cast<FloatBits>(x) & 0x7fffffff);
}
inline Doubles smaller(const Doubles& a, const Doubles& b) {
  return where(a < b, a, b);
}
inline Doubles larger(const Doubles& a, const Doubles& b) {
  return where(a > b, a, b);
}
/// The largest power of two that is not above x >= 0; the smallest normal number for x below that, 0 included.
inline Doubles first_place(const Doubles& x) {
  return larger(doubles_of(bits_of(x) & 0x7ff0000000000000LL), all(smallest_normal));
}
inline Doubles up(const Doubles& x) {
  return x * one_up;
}
/// 0 stays 0.
inline Doubles up_through_many(const Doubles& x) {
  return where(x == 0.0, x, x * many_up + lost);
}
inline Doubles norm_up(double norm, const Doubles& other) {
  return norm * other * many_up + lost;
}
inline Doubles root_up(const Doubles& x) {
  return roots_of(x) * many_up + lost;
}
/// An integer that is not above x, 0 <= x <= 2^50, and at most one below the largest of those.
inline Doubles integer_up_to(const Doubles& x) {
  constexpr double integers_only = 0x1.8p52;
  return ((x - 0.5) + integers_only) - integers_only;
}

inline double sum_of(const Doubles& x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
inline double largest_of(const Doubles& x) {
  double largest = 0.0;
  for (std::size_t j = 0; j < lanes; ++j) largest = x[j] > largest ? x[j] : largest;
  return largest;
}

}  // namespace
}  // namespace driftbound::bounds
