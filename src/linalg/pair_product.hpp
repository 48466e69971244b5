#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "linalg/exact_product.hpp"
#include "linalg/pair_rows.hpp"

namespace driftbound::linalg {

/// Rows of numbers high + low made ready for products, as ExactOperand does it for float32 numbers: divided by powers
/// of two above the 2-norms of their high parts, packed in panels. A row is usable where it is all zeros or its 2-norm
/// lies within 2^-450 and 2^450.
/// Throws:    InvalidArgument for rows longer than 2^26; UnsoundEnvironment
class PairOperand {
public:
  /// `certify` [rows]: which rows have sums that are to be exact where they can be; null: all.
  PairOperand(const PairRows& rows, Side side, const unsigned char* certify = nullptr,
              const ExactKernels& kernels = fastest_exact_kernels());

  Side side() const { return side_; }
  std::size_t rows() const { return rows_; }
  std::size_t length() const { return length_; }
  const ExactKernels& kernels() const { return *kernels_; }

  std::size_t width() const { return width_; }  ///< rows of a panel
  std::size_t panels() const { return (rows_ + width_ - 1) / width_; }
  const double* high(std::size_t p) const { return high_.get() + p * length_ * width_; }  ///< [length, width]
  const double* low(std::size_t p) const { return low_ ? low_.get() + p * length_ * width_ : nullptr; }
  bool has_low() const { return low_ != nullptr; }
  bool row_has_low(std::size_t row) const { return low_ != nullptr && row_has_low_[row] != 0; }
  const double* scales(std::size_t p) const { return scales_.data() + p * width_; }

  /// Exponents of the last bits of every step, of a row of the left operand, or lowest in a panel of the right one; the
  /// lowest is far below any where a row is not to be certified.
  const std::int16_t* units(std::size_t i) const { return units_.data() + i * length_; }
  std::int32_t lowest_unit(std::size_t i) const { return lowest_units_[i]; }

  bool is_usable(std::size_t row) const { return usable_[row] != 0; }
  /// Upper bounds of the 2-norms of the rows; infinite where one is not usable.
  const std::vector<double>& norms() const { return norms_; }

private:
  void pack(const PairRows& source, const unsigned char* certify, std::size_t p);
  int prepare(std::size_t row, const double* high);
  void find_units(std::size_t row, const double* high, const double* low, int exponent);

  const ExactKernels* kernels_;
  Side side_;
  std::size_t rows_, length_, width_;
  std::unique_ptr<double[]> high_, low_;
  std::vector<double> scales_, norms_;
  std::vector<std::int16_t> units_;
  std::vector<std::int32_t> lowest_units_;
  std::vector<unsigned char> usable_, row_has_low_;
};

/// y_ij = sum_l a_il b_jl: |high + low - y_ij| <= radius, |low| at most half a unit in the last place of high. The
/// radius is 0 where last bits show that nothing is rounded or one row is all zeros, and infinite, with high = low = 0,
/// where a row is not usable or the scales of two rows multiply to less than 2^-800; otherwise at most 2^-97 k |a_i|
/// |b_j| + 2^-1073 (2-norms). Every element depends on its own row of A alone, and on B.
/// Guarantee: proven
/// Throws:    InvalidArgument for operands of other sides, lengths or kernels; UnsoundEnvironment
/// Source:    docs/theory.md T-86
void pair_product(const PairOperand& a, const PairOperand& b, const PairSums& sums);

/// Error of a sum of `length` products of two scaled rows, `lows` of which have low parts.
/// Source:    docs/theory.md T-86
double pair_product_error(std::size_t length, int lows);

}  // namespace driftbound::linalg
