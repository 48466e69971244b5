#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "num/kernels/integer_dot.hpp"

namespace driftbound::num {

/// The builds of sums of products of integers that this processor can run, the slowest first.
std::vector<const IntegerKernels*> usable_integer_kernels();

/// The one that is faster than streaming the float32 weights of so many rows; null where none is known to be.
const IntegerKernels* fastest_integer_kernels(std::size_t rows, std::size_t length);

/// Exponents of the last bits that integers hold of rows and vectors which have been divided by a power of two above
/// their norms.
inline constexpr std::int32_t row_unit = -47, vector_unit = -51;

/// 128 bits.
__extension__ typedef __int128 WideInteger;

/// A vector of numbers below 1 in magnitude that are multiples of 2^vector_unit, with a norm below 1.
/// Source:    docs/theory.md T-126
class IntegerVector {
public:
  IntegerVector() = default;
  IntegerVector(const double* x, std::size_t length);

  bool is_empty() const { return numbers_.empty(); }
  const std::vector<std::uint64_t>& numbers() const { return numbers_; }  ///< 2^51 (x + 1); zeros behind the last one
  WideInteger offset() const { return offset_; }  ///< what sums over numbers() of any row have too much

private:
  std::vector<std::uint64_t> numbers_;
  WideInteger offset_ = 0;
};

/// Rows of float32 numbers, each divided by a power of two above its norm, as integers of 48 bits.
/// Source:    docs/theory.md T-126
class IntegerRows {
public:
  IntegerRows(std::size_t rows, std::size_t length, const IntegerKernels* kernels);

  /// Copies row i, as row / 2^exponent, if that is a multiple of 2^row_unit, which `unit` says: the exponent of the last
  /// bit of any of its elements. Rows may be taken by several threads.
  /// Domain:    the norm of row / 2^exponent is below 1
  void take(std::size_t i, const float* row, int exponent, std::int32_t unit);
  /// Whether row i, and all that share its group, were taken.
  bool has_group_of(std::size_t i) const;
  /// high[r] + low[r] = sum over l of row (r of the group) times x, exactly, both doubles; not normalised.
  /// Domain:    has_group_of(integer_rows * group), x of as many elements
  void dot(std::size_t group, const IntegerVector& x, double* high, double* low) const;

private:
  std::size_t length_, steps_;
  const IntegerKernels* kernels_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::int64_t> sums_;  ///< of the integers of a row
  std::vector<unsigned char> taken_;
};

}  // namespace driftbound::num
