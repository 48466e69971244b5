#pragma once

#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "bounds/adjoint/transposed_product.hpp"
#include "bounds/coarse_product.hpp"
#include "bounds/spectral_norm.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

/// Verified norms of the matrices of a network, and what products need of them packed, computed once. Thread-safe.
class Weights {
public:
  /// Upper bound of the largest 2-norm among a product's left (right) matrices.
  /// Source:    docs/theory.md T-63
  Magnitude norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads);
  Magnitude norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads);

  /// The right matrix that all batches of a product share, rounded up; null where coarse_weights() is empty.
  /// Source:    docs/theory.md T-81
  const CoarseWeights* coarse_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Right matrices packed in double, and as reverse mode multiplies with them.
  /// Source:    docs/theory.md T-64
  const PackedFactor& forward_right(const ProductPlan& plan, const Tensor<double>& b);
  const PackedFactor& transposed_right(const ProductPlan& plan, const Tensor<double>& b);

private:
  /// A tensor of right matrices, packed as it was asked for.
  struct Right {
    std::vector<double> elements;
    std::int64_t k = 0, n = 0, row = 0, column = 0;
    std::vector<std::int64_t> offsets;
    std::optional<Magnitude> norm;
    bool has_coarse = false;
    std::optional<CoarseWeights> coarse;
    std::optional<PackedFactor> forward, transposed;
  };
  Right& right(const ProductPlan& plan, const Tensor<double>& b);
  struct Known {
    std::vector<double> elements;
    std::int64_t rows = 0, columns = 0;
    Magnitude norm;
  };
  Magnitude norm(std::vector<double> elements, std::int64_t rows, std::int64_t columns, int threads);

  std::mutex mutex_;
  std::vector<Known> known_;
  std::list<Right> rights_;
};

}  // namespace driftbound::bounds
