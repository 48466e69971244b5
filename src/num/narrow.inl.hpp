// Rounding to the narrow formats, to nearest even, the same bits on host and device: the significand is rounded as
// an integer; the only floating-point operations are exact.
#pragma once

#include "num/elementary_f32.inl.hpp"

namespace driftbound::narrow {

/// A binary format whose numbers are all doubles (num/format.hpp has the same as data for the host).
struct Layout {
  int precision;     ///< significand bits including the hidden one
  int min_exponent;  ///< of the smallest normal number
  double largest;    ///< finite number
};

constexpr Layout fp32{24, -126, 0x1.fffffep+127};
constexpr Layout tf32{11, -126, 0x1.ffcp+127};
constexpr Layout bf16{8, -126, 0x1.fep+127};
constexpr Layout fp16{11, -14, 0x1.ffcp+15};

namespace detail {

constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;
constexpr std::uint64_t infinity_bits = std::uint64_t{0x7ff} << 52;
constexpr std::uint64_t nan_bits = std::uint64_t{0xfff} << 51;

/// significand / 2^dropped to the nearest integer, 1 <= dropped <= 63.
DRIFTBOUND_HD inline std::uint64_t nearest_even(std::uint64_t significand, int dropped) {
  const std::uint64_t odd = (significand >> dropped) & 1u;
  return (significand + ((std::uint64_t{1} << (dropped - 1)) - 1u + odd)) >> dropped;
}

}  // namespace detail

/// Every NaN becomes the one quiet NaN that all results have.
DRIFTBOUND_HD inline float canonical(float x) {
  return x != x ? f32::detail::nan() : x;
}
DRIFTBOUND_HD inline double canonical(double x) {
  return x != x ? f32::detail::double_from(detail::nan_bits) : x;
}

/// The element of the format nearest to x, ties to even; infinity where that is beyond the largest.
DRIFTBOUND_HD inline double rounded(double x, const Layout& format) {
  const std::uint64_t sign = f32::detail::bits_of(x) & detail::sign_bit;
  const std::uint64_t magnitude = f32::detail::bits_of(x) & ~detail::sign_bit;
  if (magnitude >= detail::infinity_bits) return canonical(x);

  const int biased = static_cast<int>(magnitude >> 52);
  const int exponent = (biased == 0 ? 1 : biased) - 1023;
  const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << 52) - 1u);
  const std::uint64_t significand = biased == 0 ? fraction : fraction | (std::uint64_t{1} << 52);

  const int quantum = (exponent < format.min_exponent ? format.min_exponent : exponent) - format.precision + 1;
  const int dropped = quantum - (exponent - 52);
  if (dropped > 54) return f32::detail::double_from(sign);  // below half of the quantum
  const std::uint64_t whole = detail::nearest_even(significand, dropped);
  const double value = static_cast<double>(whole) * f32::detail::power_of_two(quantum);
  const std::uint64_t bits = value > format.largest ? detail::infinity_bits : f32::detail::bits_of(value);
  return f32::detail::double_from(sign | bits);
}
DRIFTBOUND_HD inline float rounded(float x, const Layout& format) {
  return canonical(static_cast<float>(rounded(static_cast<double>(x), format)));
}

/// The 16 bits of x rounded to bfloat16.
DRIFTBOUND_HD inline std::uint16_t to_bf16(float x) {
  constexpr Layout format = bf16;  // a device has no object of namespace scope to refer to
  return static_cast<std::uint16_t>(f32::detail::bits_of(rounded(x, format)) >> 16);
}

/// The 16 bits of x rounded to float16.
DRIFTBOUND_HD inline std::uint16_t to_fp16(float x) {
  constexpr Layout format = fp16;
  const float y = rounded(x, format);
  const std::uint32_t bits = f32::detail::bits_of(y);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & ~f32::detail::sign_bit;
  std::uint32_t narrow = 0;
  if (magnitude > f32::detail::infinity_bits) {
    narrow = 0x7e00u;
  } else if (magnitude == f32::detail::infinity_bits) {
    narrow = 0x7c00u;
  } else if (f32::detail::magnitude(y) < 0x1p-14f) {
    narrow = static_cast<std::uint32_t>(f32::detail::magnitude(y) * 0x1p+24f);
  } else {
    narrow = (magnitude >> 13) - (112u << 10);
  }
  return static_cast<std::uint16_t>(sign | narrow);
}

DRIFTBOUND_HD inline float from_bf16(std::uint16_t bits) {
  return f32::detail::float_from(static_cast<std::uint32_t>(bits) << 16);
}

DRIFTBOUND_HD inline float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t wide = 0;
  if (magnitude >= 0x7c00u) {
    wide = f32::detail::infinity_bits | ((magnitude & 0x3ffu) << 13);
  } else if (magnitude < 0x400u) {
    wide = f32::detail::bits_of(static_cast<float>(magnitude) * 0x1p-24f);
  } else {
    wide = (magnitude + (112u << 10)) << 13;
  }
  return f32::detail::float_from(sign | wide);
}

}  // namespace driftbound::narrow
