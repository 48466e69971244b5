#pragma once

// Vectors of eight doubles or floats, and outward-rounded operations on them, for the kernels of this folder. Every
// processor uses eight lanes: sums are accumulated per lane, so the number of lanes determines their bits.

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
/// x one_up, computed in double, is at least the exact result that was rounded to x (to nearest), if x is 0 or at least
/// 2^-1022 (T-81).
constexpr double one_up = 1.0 + 0x1p-52;
/// A factor that covers fewer than 2^12 roundings to nearest. `lost` covers the underflow of numbers below 2^-1022.
constexpr double many_up = 1.0 + 0x1p-40;
constexpr double lost = 0x1p-1000;

/// Loads `count` <= 8 numbers; the remaining lanes are 0.
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

/// Calls body(first, count) for blocks of 8 elements, and once for the remaining ones.
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
/// max(ufp(x), 2^-1022) for x >= 0.
inline Doubles ufp(const Doubles& x) {
  return larger(simd::bits_as<double>(bits_of(x) & 0x7ff0000000000000LL), smallest_normal);
}
inline Doubles up(const Doubles& x) {
  return x * one_up;
}
/// Rounds x up by many_up and `lost`; 0 stays 0.
inline Doubles up_through_many(const Doubles& x) {
  return where(x == 0.0, x, x * many_up + lost);
}
inline Doubles norm_up(double norm, const Doubles& other) {
  return norm * other * many_up + lost;
}
inline Doubles root_up(const Doubles& x) {
  return simd::square_root(x) * many_up + lost;
}
/// floor(x), or floor(x) - 1, for 0 <= x <= 2^50.
inline Doubles integer_up_to(const Doubles& x) {
  constexpr double integers_only = 0x1.8p52;
  return ((x - 0.5) + integers_only) - integers_only;
}

}  // namespace
}  // namespace driftbound::bounds
