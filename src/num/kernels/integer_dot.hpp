#pragma once

#include <cstddef>
#include <cstdint>

namespace driftbound::num {

/// Rows side by side in a packed group, neighbouring elements of one of them, and bytes of an element (T-126).
inline constexpr std::size_t integer_rows = 4, integer_lanes = 8, integer_bytes = 6;
/// Bytes of a packed step: integer_lanes elements of each row of a group.
inline constexpr std::size_t integer_step = integer_rows * integer_lanes * integer_bytes;
/// How far beyond a group a kernel may read.
inline constexpr std::size_t integer_overrun = 64 - integer_lanes * integer_bytes;
/// Products that a 64-bit sum of halves of 52 bits holds.
inline constexpr std::size_t integer_terms = 4096;

/// Where the integer_lanes elements of row r that begin with element l, a multiple of integer_lanes, are in a group.
inline constexpr std::size_t integer_place(std::size_t r, std::size_t l) {
  return l / integer_lanes * integer_step + r * integer_lanes * integer_bytes;
}

/// One build of the sums of products of integers for one instruction set.
struct IntegerKernels {
  const char* name;
  /// low[r] = sum over l of a_rl b_l mod 2^52, high[r] = sum of floor(a_rl b_l / 2^52), for the integer_rows rows of a
  /// group: a_rl < 2^48, little-endian at integer_place(r, l), b_l < 2^52. length: a multiple of integer_lanes, at most
  /// integer_terms.
  void (*dot)(const std::uint8_t* a, const std::uint64_t* b, std::size_t length, std::uint64_t* low,
              std::uint64_t* high);
};

extern const IntegerKernels integers_baseline;
extern const IntegerKernels integers_ifma;  // x86-64 builds only

}  // namespace driftbound::num
