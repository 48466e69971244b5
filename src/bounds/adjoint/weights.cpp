#include "bounds/adjoint/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace driftbound::bounds {

Magnitude Weights::norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads) {
  Magnitude largest;
  for (const std::int64_t offset : std::set<std::int64_t>(plan.a_batch.begin(), plan.a_batch.end())) {
    std::vector<double> elements;
    for (std::int64_t i = 0; i < plan.m; ++i) {
      for (std::int64_t k = 0; k < plan.k; ++k)
        elements.push_back(a.values[static_cast<std::size_t>(offset + i * plan.a_row + k * plan.a_col)]);
    }
    largest = std::max(largest, norm(std::move(elements), plan.m, plan.k, threads));
  }
  return largest;
}

Magnitude Weights::norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = right(plan, b).norm) return *known;
  }
  Magnitude largest;
  for (const std::int64_t offset : std::set<std::int64_t>(plan.b_batch.begin(), plan.b_batch.end())) {
    std::vector<double> elements;
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t j = 0; j < plan.n; ++j)
        elements.push_back(b.values[static_cast<std::size_t>(offset + k * plan.b_row + j * plan.b_col)]);
    }
    largest = std::max(largest, norm(std::move(elements), plan.k, plan.n, threads));
  }
  const std::lock_guard lock(mutex_);
  right(plan, b).norm = largest;
  return largest;
}

Magnitude Weights::norm(std::vector<double> elements, std::int64_t rows, std::int64_t columns, int threads) {
  const std::lock_guard lock(mutex_);
  for (const Known& matrix : known_) {
    if (matrix.rows == rows && matrix.columns == columns && matrix.elements == elements) return matrix.norm;
  }
  const Magnitude norm = spectral_norm({elements.data(), rows, columns, columns, 1}, threads);
  known_.push_back({std::move(elements), rows, columns, norm});
  return norm;
}

/// To be called under the mutex.
Weights::Right& Weights::right(const ProductPlan& plan, const Tensor<double>& b) {
  const auto is_same = [&](const Right& known) {
    return known.elements.size() == b.size() && known.k == plan.k && known.n == plan.n && known.row == plan.b_row &&
           known.column == plan.b_col && known.offsets == plan.b_batch &&
           std::memcmp(known.elements.data(), b.values.data(), b.size() * sizeof(double)) == 0;
  };
  const auto found = std::find_if(rights_.begin(), rights_.end(), is_same);
  if (found != rights_.end()) return *found;
  Right& added = rights_.emplace_back();
  added.elements = b.values;
  added.k = plan.k;
  added.n = plan.n;
  added.row = plan.b_row;
  added.column = plan.b_col;
  added.offsets = plan.b_batch;
  return added;
}

const CoarseWeights* Weights::coarse_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.has_coarse) {
    std::vector<double> row_major;
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t j = 0; j < plan.n; ++j) row_major.push_back(b.values[plan.b_index(0, k, j)]);
    }
    known.coarse = coarse_weights(row_major, static_cast<std::size_t>(plan.k), static_cast<std::size_t>(plan.n));
    known.has_coarse = true;
  }
  return known.coarse ? &*known.coarse : nullptr;
}

const PackedFactor& Weights::forward_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.forward) known.forward = packed_factor({plan, {}, 0, 0}, b);
  return *known.forward;
}

const PackedFactor& Weights::transposed_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.transposed) known.transposed = packed_factor(share_of_left(plan), b);
  return *known.transposed;
}

}  // namespace driftbound::bounds
