#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace driftbound::test {

/// A matrix unit as it has been measured on NVIDIA's devices (docs/theory.md T-21): one step adds `block` products
/// to a float32. Products are exact; products and running sum are aligned to the largest exponent among them, each
/// cut off behind `fraction_bits` bits, added exactly, and the sum is cut off behind `sum_bits` bits. By integer
/// operations alone.
/// Not covered by the measurements, and chosen here: a sum of 2^128 or more is infinite.
struct TensorCoreUnit {
  int fraction_bits = 25;   ///< at most 50
  int block = 16;           ///< products added at once: 16 for 16-bit operands, 8 for tf32 (Hopper)
  int min_exponent = -126;  ///< exponent of the operands' subnormals: -14 for fp16
  int sum_bits = 23;        ///< at most 23
};

namespace tensor_core {

/// significand 2^(exponent - 23), 0 <= significand < 2^24.
struct Parts {
  bool negative;
  int exponent;
  std::int64_t significand;
};

constexpr int exponent_of_zero = -126;
constexpr int max_block = 64;

/// Subnormals have the exponent min_exponent and significands below 2^23, zero has exponent_of_zero.
/// Domain:    x finite, a multiple of 2^(min_exponent - 23)
inline Parts parts_of(float x, int min_exponent) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool negative = (bits >> 31) != 0;
  const int biased = static_cast<int>((bits >> 23) & 0xff);
  const std::int64_t fraction = bits & 0x7fffff;
  if (biased == 0 && fraction == 0) return {negative, exponent_of_zero, 0};
  const int exponent = (biased == 0 ? 1 : biased) - 127;
  const std::int64_t significand = biased == 0 ? fraction : fraction | 0x800000;
  if (exponent >= min_exponent) return {negative, exponent, significand};
  return {negative, min_exponent, significand >> std::min(min_exponent - exponent, 63)};
}

/// significand 2^shift, the fraction cut off.
inline std::int64_t shifted(std::int64_t significand, int shift) {
  if (shift >= 0) return significand << shift;
  return shift > -63 ? significand >> -shift : 0;
}

/// sum 2^exponent cut to a float32 of so many fraction bits, subnormals included.
inline float cut_to_float(std::int64_t sum, int exponent, int sum_bits) {
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  if (magnitude == 0) return 0.0f;
  const int leading = static_cast<int>(std::bit_width(magnitude)) - 1;
  const int quantum = std::max(leading + exponent, -126) - sum_bits;
  const int dropped = std::max(quantum - exponent, 0);
  const double kept = dropped < 64 ? static_cast<double>((magnitude >> dropped) << dropped) : 0.0;
  const double value = std::ldexp(kept, exponent);
  return static_cast<float>(sum < 0 ? -value : value);
}

}  // namespace tensor_core

/// One step: c + a(0) b(0) + ... + a(count - 1) b(count - 1), a and b functions of the index.
/// Domain:    count <= block <= 64
template <class A, class B>
float tensor_core_step(const TensorCoreUnit& unit, float c, int count, A a, B b) {
  using namespace tensor_core;
  Parts x[max_block], y[max_block];
  double special = double{c};
  bool finite = std::isfinite(c);
  for (int k = 0; k < count; ++k) {
    special += double{a(k)} * double{b(k)};
    finite = finite && std::isfinite(a(k)) && std::isfinite(b(k));
    x[k] = parts_of(a(k), unit.min_exponent);
    y[k] = parts_of(b(k), unit.min_exponent);
  }
  if (!finite) return std::isnan(special) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(special);

  const Parts before = parts_of(c, exponent_of_zero);
  int largest = before.exponent;
  for (int k = 0; k < count; ++k) largest = std::max(largest, x[k].exponent + y[k].exponent);

  const int quantum = largest - unit.fraction_bits;
  std::int64_t sum = shifted(before.significand, before.exponent - 23 - quantum);
  if (before.negative) sum = -sum;
  for (int k = 0; k < count; ++k) {
    const std::int64_t term =
        shifted(x[k].significand * y[k].significand, x[k].exponent + y[k].exponent - 46 - quantum);
    sum += x[k].negative != y[k].negative ? -term : term;
  }
  return cut_to_float(sum, quantum, unit.sum_bits);
}

/// c + sum of a(k) b(k) over k < count, `block` products a step.
template <class A, class B>
float tensor_core_chain(const TensorCoreUnit& unit, float c, std::int64_t count, A a, B b) {
  for (std::int64_t first = 0; first < count; first += unit.block) {
    const auto at_once = static_cast<int>(std::min<std::int64_t>(unit.block, count - first));
    c = tensor_core_step(
        unit, c, at_once, [&](int k) { return a(first + k); }, [&](int k) { return b(first + k); });
  }
  return c;
}

}  // namespace driftbound::test
