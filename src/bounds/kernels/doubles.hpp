#pragma once

// Eight numbers at a time, for the kernels of this folder: on every processor eight, as sums of rows are added up lane
// by lane.

#include "simd/vector.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t lanes = 8;
using Doubles = simd::Vector<double, lanes>;
using Floats = simd::Vector<float, lanes>;
using Bits = Doubles::Mask;
using simd::magnitude, simd::sum_of;

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
  return Doubles::load(p, count);
}
template <class Count>
inline Floats load(const float* p, Count count) {
  return Floats::load(p, count);
}
template <class Count>
inline Doubles load_or_zero(const double* p, std::size_t i, Count count) {
  return p == nullptr ? Doubles{} : load(p + i, count);
}

template <class T, class Count>
inline void store(T* p, const simd::Vector<T, lanes>& x, Count count) {
  x.store(p, count);
}

/// body(first, count) for 8 elements at a time, and once for those that are left.
template <class Body>
inline void each(std::size_t n, const Body& body) {
  simd::in_vectors<lanes>(n, body);
}

inline Floats floats_of(const Doubles& x) {
  return simd::converted<float>(x);
}
inline Doubles doubles_of(const Floats& x) {
  return simd::converted<double>(x);
}
/// The largest power of two that is not above x >= 0; the smallest normal number for x below that, 0 included.
inline Doubles ufp(const Doubles& x) {
  return larger(simd::bits_as<double>(bits_of(x) & 0x7ff0000000000000LL), smallest_normal);
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
  return simd::square_root(x) * many_up + lost;
}
/// An integer that is not above x, 0 <= x <= 2^50, and at most one below the largest of those.
inline Doubles integer_up_to(const Doubles& x) {
  constexpr double integers_only = 0x1.8p52;
  return ((x - 0.5) + integers_only) - integers_only;
}

}  // namespace
}  // namespace driftbound::bounds
