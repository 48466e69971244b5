#include "reference/kept_matrices.hpp"

#include <algorithm>
#include <utility>

#include "bounds/spectral_norm.hpp"

namespace driftbound {

int left_bits_for(const num::ResidueOperand& right) {
  return std::min(pair_bits, num::most_residue_bits() - num::spare_bits - right.bits());
}

num::PairRows rows_at(const PairTensor& tensor, const KeptMatrices::Place& place) {
  return {tensor.hi.data() + place.offset,
          tensor.lo.data() + place.offset,
          place.rows,
          place.length,
          place.row_step,
          place.step};
}

namespace {

/// Smaller matrices are multiplied faster without.
constexpr std::size_t fewest_rows = 16, shortest_row = 32;
/// Left operands cut off any sooner would lose more than products of pairs do.
constexpr int fewest_left_bits = 90;

std::optional<num::ResidueOperand> residues_of(const PairTensor& tensor, const num::PairRows& rows,
                                               const KeptMatrices::Place& place) {
  const num::ResidueKernels* const kernels = num::fastest_residue_kernels();
  if (kernels == nullptr || place.side != num::Side::right || !tensor.is_exact() || rows.rows < fewest_rows ||
      rows.length < shortest_row || rows.length > num::longest_residue_row)
    return std::nullopt;
  std::optional<num::ResidueOperand> operand(std::in_place, rows, place.side, 1, num::most_residue_bits(),
                                             num::most_row_bits, *kernels);
  if (!operand->is_exact() || !operand->all_fit() || left_bits_for(*operand) < fewest_left_bits) return std::nullopt;
  return operand;
}

}  // namespace

KeptMatrices::Kept& KeptMatrices::kept(const PairTensor& tensor, const Place& place) {
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& candidate) { return candidate.place == place; });
  if (known != kept_.end()) return *known;
  const num::PairRows rows = rows_at(tensor, place);
  return kept_.emplace_back(
      Kept{place, num::PairOperand(rows, place.side), residues_of(tensor, rows, place), std::nullopt});
}

const num::PairOperand& KeptMatrices::packed(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  return kept(tensor, place).operand;
}

const num::ResidueOperand* KeptMatrices::residues(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  const Kept& matrix = kept(tensor, place);
  return matrix.residues ? &*matrix.residues : nullptr;
}

Magnitude KeptMatrices::spectral_norm(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  Kept& matrix = kept(tensor, place);
  if (!matrix.norm) {
    const bool plain = tensor.is_exact() && !matrix.operand.has_low();
    const bounds::MatrixView view = {tensor.hi.data() + place.offset, static_cast<std::int64_t>(place.rows),
                                     static_cast<std::int64_t>(place.length), place.row_step, place.step};
    matrix.norm = plain ? bounds::spectral_norm(view, 1) : Magnitude::infinite();
  }
  return *matrix.norm;
}

}  // namespace driftbound
