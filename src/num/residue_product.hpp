#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "num/exact_product.hpp"
#include "num/residue_kernels.hpp"

namespace driftbound::num {

/// 2^bits <= the product of all moduli.
int most_residue_bits();

/// Longest rows that products by residues take.
inline constexpr std::size_t longest_residue_row = std::size_t{1} << 16;

/// Rows of float32 numbers as integers modulo small numbers. Row i is 2^unit(i) times a row of integers whose 2-norm is
/// at most 2^bits(i). A matrix of weights is made ready once.
/// Throws:    InvalidArgument for rows longer than 2^16, or no thread; UnsoundEnvironment
/// Source:    docs/theory.md T-100
class ResidueOperand {
public:
  /// `other_bits`: bits() of what it will be multiplied with, or more; as many moduli are kept as that takes.
  ResidueOperand(const FloatRows& rows, Side side, int threads, int other_bits, const ResidueKernels& kernels);

  Side side() const { return side_; }
  std::size_t rows() const { return rows_; }
  std::size_t length() const { return length_; }
  const ResidueKernels& kernels() const { return *kernels_; }
  int bits() const { return bits_; }  ///< the most of any row
  /// Whether every row is finite and few enough moduli are asked for; else nothing is kept, and products are false.
  bool fits() const { return fits_; }

  std::size_t moduli_kept() const { return kept_; }
  std::size_t pairs() const { return (rows_ + 2 * residue_rows - 1) / (2 * residue_rows); }  ///< of panels
  std::size_t chunks() const { return (length_ + residue_steps - 1) / residue_steps; }
  std::size_t panel_size() const { return chunks() * chunk_size; }
  std::size_t pair_size() const { return 2 * kept_ * panel_size(); }
  /// [modulus, panel, chunk, ...]
  const std::uint8_t* pair(std::size_t p) const { return residues_.get() + p * pair_size(); }
  int bits_of_pair(std::size_t p) const { return bits_of_pairs_[p]; }
  const double* scales(std::size_t panel) const { return scales_.data() + panel * residue_rows; }

private:
  void measure(const FloatRows& source, std::size_t pair);
  void reduce(const FloatRows& source, std::size_t panel);

  const ResidueKernels* kernels_;
  Side side_;
  std::size_t rows_, length_, kept_ = 0;
  int bits_ = 0;
  bool fits_ = true;
  std::vector<double> scales_;  ///< 2^unit
  std::vector<int> row_bits_, bits_of_pairs_;
  std::unique_ptr<std::uint8_t[]> residues_;  ///< [pair, modulus, panel, chunk, ...]
};

/// y = A B^T as exact_product() gives it: all of it exact but for what high + low cannot hold. False, with `result` as
/// it was, where an operand does not fit or the two of them together need more moduli than there are or were kept.
/// Guarantee: proven
/// Throws:    InvalidArgument for operands of other sides, lengths or kernels; UnsoundEnvironment
/// Source:    docs/theory.md T-100
bool residue_product(const ResidueOperand& a, const ResidueOperand& b, ExactProduct& result, int threads);

}  // namespace driftbound::num
