#pragma once

#include <mutex>
#include <vector>

#include "bounds/spectral_norm.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

/// Verified norms of the matrices of a network, computed once. Thread-safe.
class Weights {
public:
  /// Upper bound of the largest 2-norm among a product's left (right) matrices.
  /// Source:    docs/theory.md T-63
  Magnitude norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads);
  Magnitude norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads);

private:
  struct Known {
    std::vector<double> elements;
    std::int64_t rows = 0, columns = 0;
    Magnitude norm;
  };
  Magnitude norm(std::vector<double> elements, std::int64_t rows, std::int64_t columns, int threads);

  std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace driftbound::bounds
