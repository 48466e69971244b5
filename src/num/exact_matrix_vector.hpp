#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "num/exact_product.hpp"
#include "num/integer_rows.hpp"

namespace driftbound::num {

/// A matrix of float32 weights as it is stored, and what an exact product with a vector needs to know of each row,
/// found once: a power of two above its norm and its last bit, and its elements as integers where `integers` are to add
/// up their products. The weights must stay where they are.
/// Throws:    InvalidArgument where the elements of a row are not neighbours, for rows longer than 2^26, or no thread;
///            UnsoundEnvironment
class ExactMatrix {
public:
  explicit ExactMatrix(const FloatRows& rows, int threads = 1)
      : ExactMatrix(rows, threads, fastest_exact_kernels(), fastest_integer_kernels(rows.rows, rows.length)) {}
  /// With the kernels named; `integers` may be null.
  ExactMatrix(const FloatRows& rows, int threads, const ExactKernels& kernels, const IntegerKernels* integers);

  std::size_t rows() const { return source_.rows; }
  std::size_t length() const { return source_.length; }
  const ExactKernels& kernels() const { return *kernels_; }
  const float* row(std::size_t i) const { return source_.data + static_cast<std::ptrdiff_t>(i) * source_.row_step; }
  int exponent(std::size_t i) const { return exponents_[i]; }
  double scale(std::size_t i) const { return scales_[i]; }      ///< 2^exponent
  std::int32_t unit(std::size_t i) const { return units_[i]; }  ///< exponent of the last bit of row / 2^exponent
  bool is_finite(std::size_t i) const { return finite_[i] != 0; }
  const IntegerRows& integers() const { return integers_; }

private:
  FloatRows source_;
  const ExactKernels* kernels_;
  std::vector<int> exponents_;
  std::vector<double> scales_;
  std::vector<std::int32_t> units_;
  std::vector<unsigned char> finite_;
  IntegerRows integers_;
};

/// y = W x, as exact_product gives the row of one sample: y has one row and as many columns as W has rows. It adds up
/// integers where both factors are such, and streams the float32 weights elsewhere; rows for which two accumulators are
/// not certain are done by exact_product.
/// Guarantee: proven
/// Source:    docs/theory.md T-85, T-126
/// Throws:    UnsoundEnvironment; InvalidArgument for no thread
void exact_matrix_vector(const ExactMatrix& w, const float* x, ExactProduct& y, int threads = 1,
                         Doubtful doubtful = Doubtful::third_accumulator);

}  // namespace driftbound::num
