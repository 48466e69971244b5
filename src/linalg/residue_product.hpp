#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "linalg/exact_product.hpp"
#include "linalg/pair_rows.hpp"
#include "linalg/residue_kernels.hpp"

namespace driftbound::linalg {

/// 2^bits <= the product of all moduli.
int most_residue_bits();

/// Rows become integers of at most so many bits.
inline constexpr int most_row_bits = 122;
/// Products take so many bits more than their operands together: for the sign, and so that integers lie within a
/// quarter of the product of the moduli.
inline constexpr int spare_bits = 2;

/// Integers of so many bits are one digit, and sums of at most so many come out as two doubles without a rest.
inline constexpr int bits_of_one_digit = 50, bits_without_rest = 104;

/// Most pairs of right panels whose rows change places among themselves, and their rows.
inline constexpr std::size_t most_window_pairs = 16, most_window_rows = 2 * residue_rows * most_window_pairs;

/// Longest rows that products by residues take.
inline constexpr std::size_t longest_residue_row = std::size_t{1} << 16;

/// How a row became integers n: |x_l - 2^unit n_l| <= error for its numbers x, |n| <= size <= 2^bits (2-norm).
struct ResidueRow {
  double scale = 1.0;  ///< 2^unit
  int bits = 0;
  double size = 1.0;
  double error = 0.0;  ///< 0 where every x is 2^unit times an integer
  bool fits = true;
};

/// Rows of numbers as powers of two times integers, of which residues modulo small numbers are kept. Rows of float32
/// numbers, and of doubles of few enough bits, become integers as they are, others are cut off behind `most_bits`. A
/// matrix of weights is made ready once. A row does not fit, and zeros are kept of it, where an element is not finite,
/// a low part is above a unit in the last place of its high part, a float32 row has more than 122 bits, or the 2-norm
/// of another is not within 2^-400 and 2^400.
/// Throws:    InvalidArgument for rows longer than 2^16, or no thread; UnsoundEnvironment
/// Source:    docs/theory.md T-100, T-101
class ResidueOperand {
public:
  /// `other_bits`: bits() of what it will be multiplied with, or more; as many residues are kept as that takes.
  ResidueOperand(const FloatRows& rows, Side side, int threads, int other_bits, const ResidueKernels& kernels);
  /// most_bits is 30 to 122.
  ResidueOperand(const PairRows& rows, Side side, int threads, int other_bits, int most_bits,
                 const ResidueKernels& kernels);

  Side side() const { return side_; }
  std::size_t rows() const { return rows_; }
  std::size_t length() const { return length_; }
  const ResidueKernels& kernels() const { return *kernels_; }
  int bits() const { return bits_; }  ///< the most of any row
  bool all_fit() const { return all_fit_; }
  bool is_exact() const { return is_exact_; }  ///< no row has an error
  const ResidueRow& row(std::size_t i) const { return row_[i]; }

  /// Most bits that the other operand of a product may have.
  int other_bits() const { return other_bits_; }
  /// Rows lie in pairs of panels by their size, so that most of them go with few moduli: left ones all together, right
  /// ones window by window, whose residues pass by every pair of left panels.
  std::span<const std::size_t> rows_of_pair(std::size_t p) const {
    return places(p * 2 * residue_rows, 2 * residue_rows);
  }
  std::span<const std::size_t> rows_of_window(std::size_t window) const {
    return places(window * window_rows(), window_rows());
  }
  std::size_t window_pairs() const;
  std::size_t window_rows() const { return 2 * residue_rows * window_pairs(); }
  std::size_t pairs() const { return (rows_ + 2 * residue_rows - 1) / (2 * residue_rows); }  ///< of panels
  std::size_t chunks() const { return (length_ + residue_steps - 1) / residue_steps; }
  std::size_t panel_size() const { return chunks() * chunk_size; }
  std::size_t pair_size() const { return 2 * kept_ * panel_size(); }
  /// [modulus, panel, chunk, ...]
  const std::uint8_t* pair(std::size_t p) const { return bytes() + p * pair_size(); }
  double size_of_pair(std::size_t p) const { return size_of_pairs_[p]; }
  const double* scales(std::size_t panel) const { return scales_.data() + panel * residue_rows; }

private:
  template <class Source>
  void make(const Source& source, int threads, int other_bits);
  std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(residues_.get()); }
  void arrange();
  std::span<const std::size_t> places(std::size_t first, std::size_t count) const {
    return std::span(order_).subspan(first, std::min(count, rows_ - first));
  }
  std::size_t moduli_for_all(int bits) const;
  void store(std::size_t place, const ResidueRow& row, const double* high, const double* low, double* digits,
             std::uint8_t* row_bytes);

  const ResidueKernels* kernels_;
  Side side_;
  std::size_t rows_, length_, kept_ = 0;
  int bits_ = 0, other_bits_ = 0;
  bool all_fit_ = true, is_exact_ = true;
  std::vector<ResidueRow> row_;
  std::vector<std::size_t> order_;  ///< rows by place
  std::vector<double> scales_;      ///< by place
  std::vector<int> bits_of_pairs_;
  std::vector<double> size_of_pairs_;  ///< the largest of a row
  struct alignas(64) Line {
    std::uint8_t bytes[64];
  };
  std::unique_ptr<Line[]> residues_;  ///< [pair, modulus, panel, chunk, ...]; vectors do not cross lines of the cache
};

/// Whether enough residues were kept of both operands, and as many moduli exist.
bool has_residue_product(const ResidueOperand& a, const ResidueOperand& b);

/// y = A B^T: |high + low - y_ij| <= radius; high is high + low rounded to nearest. Of exact operands all of it is
/// exact but for what high + low cannot hold, else the radius is sqrt(k) times the errors of rows and norms of the
/// others; it is infinite, with high = low = 0, where a row does not fit. sums.radius may be null where it would be 0
/// everywhere: both operands are exact, all rows fit, and the bits of both are at most 104 together. Every element
/// depends on its own rows alone.
/// Guarantee: proven
/// Throws:    InvalidArgument for operands of other sides, lengths or kernels, or that have no product;
///            UnsoundEnvironment
/// Source:    docs/theory.md T-100, T-101
void residue_product(const ResidueOperand& a, const ResidueOperand& b, const PairSums& sums, int threads);

/// The same for exact operands, as exact_product() gives it. False, with `result` as it was, where they have no
/// product.
bool residue_product(const ResidueOperand& a, const ResidueOperand& b, ExactProduct& result, int threads);

}  // namespace driftbound::linalg
