#include "reference/kept_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/matrices/spectral_norm.hpp"
#include "driftbound/num/directed.hpp"
#include "reference/pair_kernels.hpp"

namespace driftbound {

linalg::PairRows rows_at(const PairTensor& tensor, const KeptMatrices::Place& place) {
  return {tensor.hi.data() + place.offset,
          tensor.lo.data() + place.offset,
          place.rows,
          place.length,
          place.row_step,
          place.step};
}

std::vector<double> row_norms(const PairTensor& tensor, const KeptMatrices::Place& place) {
  constexpr double with_low_parts = 1.0 + 0x1p-50;
  std::vector<double> norms, row(place.length);
  for (std::size_t i = 0; i < place.rows; ++i) {
    const double* const first = tensor.hi.data() + place.offset + static_cast<std::ptrdiff_t>(i) * place.row_step;
    for (std::size_t l = 0; l < row.size(); ++l) row[l] = std::fabs(first[static_cast<std::ptrdiff_t>(l) * place.step]);
    norms.push_back(mul_up(fastest_pair_kernels().norm(row.data(), row.size()), with_low_parts));
  }
  return norms;
}

int left_bits_for(const linalg::ResidueOperand& right) {
  return std::min(linalg::most_row_bits, linalg::most_residue_bits() - linalg::spare_bits - right.bits());
}

namespace {

/// Smaller matrices are multiplied faster without.
constexpr std::size_t fewest_rows = 16, shortest_row = 32;
/// Left operands cut off any sooner would lose more than products of pairs do.
constexpr int fewest_left_bits = 90;

std::optional<linalg::ResidueOperand> residues_of(const PairTensor& tensor, const KeptMatrices::Place& place,
                                                  const linalg::ResidueKernels* kernels) {
  if (kernels == nullptr || place.side != linalg::Side::right || !tensor.is_exact() || place.rows < fewest_rows ||
      place.length < shortest_row || place.length > linalg::longest_residue_row)
    return std::nullopt;
  std::optional<linalg::ResidueOperand> operand(std::in_place, rows_at(tensor, place), place.side, 1,
                                                linalg::most_residue_bits(), linalg::most_row_bits, *kernels);
  if (!operand->is_exact() || !operand->all_fit() || left_bits_for(*operand) < fewest_left_bits) return std::nullopt;
  return operand;
}

}  // namespace

KeptMatrices::Kept& KeptMatrices::kept(const Place& place) {
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& candidate) { return candidate.place == place; });
  return known != kept_.end() ? *known : kept_.emplace_back(Kept{place, {}, {}, {}, false, {}});
}

const linalg::PairOperand& KeptMatrices::packed(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  Kept& matrix = kept(place);
  if (!matrix.operand) matrix.operand.emplace(rows_at(tensor, place), place.side);
  return *matrix.operand;
}

const std::vector<double>& KeptMatrices::norms(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  Kept& matrix = kept(place);
  if (!matrix.norms) matrix.norms = row_norms(tensor, place);
  return *matrix.norms;
}

const linalg::ResidueOperand* KeptMatrices::residues(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  Kept& matrix = kept(place);
  if (!matrix.residues_known) matrix.residues = residues_of(tensor, place, residue_kernels_);
  matrix.residues_known = true;
  return matrix.residues ? &*matrix.residues : nullptr;
}

Magnitude KeptMatrices::spectral_norm(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  Kept& matrix = kept(place);
  if (!matrix.norm) {
    const bool plain =
        tensor.is_exact() && std::all_of(tensor.lo.begin(), tensor.lo.end(), [](double x) { return x == 0.0; });
    const bounds::MatrixView view = {tensor.hi.data() + place.offset, static_cast<std::int64_t>(place.rows),
                                     static_cast<std::int64_t>(place.length), place.row_step, place.step};
    const bool is_known = norm_of_whole_ && place.rows * place.length == tensor.size();
    if (plain)
      matrix.norm = is_known ? norm_of_whole_() : bounds::spectral_norm(view, 1);
    else
      matrix.norm = Magnitude::infinite();
  }
  return *matrix.norm;
}

}  // namespace driftbound
