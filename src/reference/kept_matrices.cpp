#include "reference/kept_matrices.hpp"

#include <algorithm>

#include "bounds/spectral_norm.hpp"

namespace driftbound {

num::PairRows rows_at(const PairTensor& tensor, const KeptMatrices::Place& place) {
  return {tensor.hi.data() + place.offset,
          tensor.lo.data() + place.offset,
          place.rows,
          place.length,
          place.row_step,
          place.step};
}

KeptMatrices::Kept& KeptMatrices::kept(const PairTensor& tensor, const Place& place) {
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& candidate) { return candidate.place == place; });
  if (known != kept_.end()) return *known;
  return kept_.emplace_back(Kept{place, num::PairOperand(rows_at(tensor, place), place.side), std::nullopt});
}

const num::PairOperand& KeptMatrices::packed(const PairTensor& tensor, const Place& place) {
  const std::lock_guard lock(mutex_);
  return kept(tensor, place).operand;
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
