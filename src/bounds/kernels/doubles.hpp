#pragma once

// Eight numbers at a time, for the kernels of this folder alone: internal linkage, as each is compiled for another
// processor. Lanes are elements; every operation is one IEEE rounding to nearest.

#include <cstddef>

namespace driftbound::bounds {
namespace {

constexpr std::size_t lanes = 8;
using Doubles = double __attribute__((vector_size(lanes * sizeof(double))));
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using Bits = long long __attribute__((vector_size(lanes * sizeof(double))));

constexpr double infinity = __builtin_inf();
constexpr double largest_double = 0x1.fffffffffffffp+1023;
constexpr double smallest_normal = 0x1p-1022;
/// Next double or beyond: makes up for one rounding to nearest of a number that is 0 or at least 2^-1022.
constexpr double one_up = 1.0 + 0x1p-52;
/// Makes up for fewer than 2^12 roundings to nearest; what underflows below 2^-1022 is less than `lost`.
constexpr double many_up = 1.0 + 0x1p-40;
constexpr double lost = 0x1p-1000;

inline Doubles all(double x) {
  return Doubles{x, x, x, x, x, x, x, x};
}

/// The number 8 as a type: loops over whole vectors know at compile time that they are whole.
struct Whole {
  constexpr operator std::size_t() const { return lanes; }
};

/// `count` of 8 numbers, 0 in place of the others.
template <class Count>
inline Doubles load(const double* p, Count count) {
  Doubles v = {};
  __builtin_memcpy(&v, p, std::size_t{count} * sizeof(double));
  return v;
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
  __builtin_memcpy(p, &v, std::size_t{count} * sizeof(double));
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
  return reinterpret_cast<Doubles>(reinterpret_cast<Bits>(x) & 0x7fffffffffffffffLL);
}
inline Doubles smaller(const Doubles& a, const Doubles& b) {
  return a < b ? a : b;
}
inline Doubles larger(const Doubles& a, const Doubles& b) {
  return a > b ? a : b;
}
/// The largest power of two that is not above x >= 0; the smallest normal number for x below that, 0 included.
inline Doubles first_place(const Doubles& x) {
  const Bits bits = reinterpret_cast<Bits>(x) & 0x7ff0000000000000LL;
  return larger(reinterpret_cast<Doubles>(bits), all(smallest_normal));
}
inline Doubles up(const Doubles& x) {
  return x * one_up;
}
/// 0 stays 0.
inline Doubles up_through_many(const Doubles& x) {
  return x == 0.0 ? x : x * many_up + lost;
}
inline Doubles norm_up(double norm, const Doubles& other) {
  return norm * other * many_up + lost;
}
inline Doubles root_up(const Doubles& x) {
  Doubles root = {};
  for (std::size_t j = 0; j < lanes; ++j) root[j] = __builtin_sqrt(x[j]);
  return root * many_up + lost;
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
