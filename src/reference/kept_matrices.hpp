#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "driftbound/num/magnitude.hpp"
#include "linalg/pair_product.hpp"
#include "linalg/residue_product.hpp"
#include "reference/pair_tensor.hpp"

namespace driftbound {

/// Matrices of one tensor that does not change as products take them, packed the first time that one is asked for, with
/// their spectral norms. Thread-safe.
class KeptMatrices {
public:
  /// Rows of `tensor`, always the same one, beginning at `offset`.
  struct Place {
    std::size_t offset = 0, rows = 0, length = 0;
    std::ptrdiff_t row_step = 0, step = 0;
    linalg::Side side = linalg::Side::right;

    bool operator==(const Place&) const = default;
  };
  /// Kernels for products by residues, null: none, so that all go through T-86.
  explicit KeptMatrices(const linalg::ResidueKernels* residue_kernels = linalg::fastest_residue_kernels())
      : residue_kernels_(residue_kernels) {}
  /// `norm_of_whole`: an upper bound of the largest singular value of the tensor as one matrix; may be empty.
  explicit KeptMatrices(std::function<Magnitude()> norm_of_whole) : KeptMatrices() {
    norm_of_whole_ = std::move(norm_of_whole);
  }

  const linalg::PairOperand& packed(const PairTensor& tensor, const Place& place);
  /// Residues for products with left operands of left_bits_for() bits; null where the numbers are too wide for that,
  /// the tensor is not exact, or there are no kernels for them.
  const linalg::ResidueOperand* residues(const PairTensor& tensor, const Place& place);
  /// Upper bounds of the 2-norms of the rows.
  const std::vector<double>& norms(const PairTensor& tensor, const Place& place);
  /// Upper bound of the largest singular value, for a tensor of exact numbers; infinite for another.
  /// Source:    docs/theory.md T-63
  Magnitude spectral_norm(const PairTensor& tensor, const Place& place);

private:
  struct Kept {
    Place place;
    std::optional<linalg::PairOperand> operand;
    std::optional<Magnitude> norm;
    std::optional<std::vector<double>> norms;
    bool residues_known = false;
    std::optional<linalg::ResidueOperand> residues;
  };
  Kept& kept(const Place& place);

  const linalg::ResidueKernels* residue_kernels_;
  std::function<Magnitude()> norm_of_whole_;
  std::mutex mutex_;
  std::list<Kept> kept_;
};

/// How many bits of a left operand there are moduli for.
int left_bits_for(const linalg::ResidueOperand& right);

/// Rows of a tensor at a place, as a product takes them.
linalg::PairRows rows_at(const PairTensor& tensor, const KeptMatrices::Place& place);

/// Upper bounds of the 2-norms of rows.
std::vector<double> row_norms(const PairTensor& tensor, const KeptMatrices::Place& place);

}  // namespace driftbound
