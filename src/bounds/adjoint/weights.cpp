#include "bounds/adjoint/weights.hpp"

#include <algorithm>
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
  Magnitude largest;
  for (const std::int64_t offset : std::set<std::int64_t>(plan.b_batch.begin(), plan.b_batch.end())) {
    std::vector<double> elements;
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t j = 0; j < plan.n; ++j)
        elements.push_back(b.values[static_cast<std::size_t>(offset + k * plan.b_row + j * plan.b_col)]);
    }
    largest = std::max(largest, norm(std::move(elements), plan.k, plan.n, threads));
  }
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

}  // namespace driftbound::bounds
