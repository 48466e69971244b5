#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "linalg/exact_product_kernels.hpp"

namespace driftbound::linalg {

/// Rows of float32 numbers in memory: element l of row i is data[i * row_step + l * step].
struct FloatRows {
  const float* data = nullptr;
  std::size_t rows = 0, length = 0;
  std::ptrdiff_t row_step = 0, step = 1;
};

/// Which factor of A B^T an operand is.
enum class Side { left, right };

/// Rows of float32 numbers made ready for exact products: divided by powers of two above their 2-norms, packed in
/// panels as one build of the kernels reads them, with the last bits of every step. A matrix of weights is packed once.
/// Throws:    InvalidArgument for rows longer than 2^26, or no thread; UnsoundEnvironment
class ExactOperand {
public:
  ExactOperand(const FloatRows& rows, Side side, int threads, const ExactKernels& kernels = fastest_exact_kernels());

  Side side() const { return side_; }
  std::size_t rows() const { return rows_; }
  std::size_t length() const { return length_; }
  const ExactKernels& kernels() const { return *kernels_; }

  std::size_t width() const { return width_; }  ///< rows of a panel
  std::size_t panels() const { return (rows_ + width_ - 1) / width_; }
  const double* panel(std::size_t p) const { return panels_.get() + p * length_ * width_; }  ///< [length, width]
  const double* scales(std::size_t p) const { return scales_.data() + p * width_; }
  const std::int16_t* units(std::size_t p) const { return units_.data() + p * length_; }
  std::int32_t lowest_unit(std::size_t p) const { return lowest_units_[p]; }
  bool is_finite(std::size_t row) const { return finite_[row] != 0; }
  bool all_finite() const { return all_finite_; }

private:
  void pack(const FloatRows& source, std::size_t p);

  const ExactKernels* kernels_;
  Side side_;
  std::size_t rows_, length_, width_;
  std::unique_ptr<double[]> panels_;
  std::vector<double> scales_;              ///< a power of two a row; rows of nothing have 1
  std::vector<std::int16_t> units_;         ///< [panels, length]: exponent of the last bit of what is packed
  std::vector<std::int32_t> lowest_units_;  ///< of each panel
  std::vector<unsigned char> finite_;
  bool all_finite_ = true;
};

/// What a product came to: |high + low - y| <= radius for the exact y, element by element, [rows, columns] row-major.
struct ExactProduct {
  std::size_t rows = 0, columns = 0;
  std::vector<double> high, low;  ///< high is high + low rounded to nearest
  std::vector<double> radius;     ///< empty where every element is exact

  double radius_of(std::size_t i, std::size_t j) const { return radius.empty() ? 0.0 : radius[i * columns + j]; }
};

/// What to do with tiles of elements that two accumulators are not certain to add up exactly.
enum class Doubtful {
  third_accumulator,  ///< add them up again with three (T-84)
  radius,             ///< leave them with the radius of two (T-83)
};

/// y = A B^T: y_ij = sum_l a_il b_jl for float32 rows, exact wherever the radius is 0, which is decided for tiles of
/// kernels.rows x kernels.columns elements, from the last bits of the operands alone. Where an element of row i of A or
/// of row j of B is infinite or NaN, y_ij has no value: high is NaN and the radius infinite, whatever it is multiplied
/// by. The radius is what is left: at most 2^-95 k |a_i| |b_j| (2-norms) with two accumulators, 2^-152 k^3 |a_i| |b_j|
/// and half a unit in the last place of low with three. Where that is too much, as for rows with outliers, MPFR is what
/// is left. The memory of `result` is used again.
/// Guarantee: proven
/// Throws:    InvalidArgument for operands of other sides, lengths or kernels; UnsoundEnvironment
/// Source:    docs/theory.md T-83, T-84
void exact_product(const ExactOperand& a, const ExactOperand& b, ExactProduct& result, int threads,
                   Doubtful doubtful = Doubtful::third_accumulator);

}  // namespace driftbound::linalg
