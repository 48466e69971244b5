#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "bounds/matrices/spectral_norm.hpp"
#include "bounds/nodes/transposed_product.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/sums/term_patterns.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/tensor.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// Whether a node is a product of matrices of which the right one is the same for every sample.
bool multiplies_by_constant(const Program& program, const Node& node);
/// By value, the constants that are such right matrices: those that OperandCache::constant() is for.
std::vector<bool> constant_matrices(const Program& program);

class OperandCache;
/// By value, a network's constants in double: matrices where the weights keep them, the others put into `others`; null:
/// no constant.
std::vector<const Tensor<double>*> constants_of(const Program& program, OperandCache& operands,
                                                std::deque<Tensor<double>>& others);

/// Operands of products as bounds need them, kept from block to block: constants in double, verified norms of matrices,
/// and matrices packed. Thread-safe.
class OperandCache {
public:
  /// A constant in double, the same for all that share its bytes: those of a graph and of the networks made from it.
  /// Products with it are found again by its address. It is kept as long as this is.
  const Tensor<double>& constant(const StoredTensor& stored);

  /// Upper bound of the largest 2-norm among a product's left (right) matrices.
  /// Source:    docs/theory.md T-63
  Magnitude norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads);
  Magnitude norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads);
  /// The same of a constant of two axes.
  Magnitude norm_of_constant(const StoredTensor& stored, int threads);

  /// The right matrix that all batches of a product share, rounded up, always with the same rules; null where
  /// coarse_weights() is empty.
  /// Source:    docs/theory.md T-81
  const CoarseWeights* coarse_right(const ProductPlan& plan, const Tensor<double>& b);
  /// The sizes of the columns of right matrices, by offset.
  /// Source:    docs/theory.md T-95
  const RightColumns& columns_of_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Whether all numbers of the right matrices are float32 numbers.
  bool are_floats(const ProductPlan& plan, const Tensor<double>& b);
  /// The right matrices themselves.
  std::span<const double> elements_of_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Right matrices packed in double, and as reverse mode multiplies with them.
  /// Source:    docs/theory.md T-64
  const PackedFactor& forward_right(const ProductPlan& plan, const Tensor<double>& b);
  const PackedFactor& transposed_right(const ProductPlan& plan, const Tensor<double>& b);
  /// transposed_right() in single precision, of float32 numbers.
  const PackedMatrices<float>& transposed_in_single(const ProductPlan& plan, const Tensor<double>& b);
  /// Right matrices for partial sums.
  /// Source:    docs/theory.md T-69
  const SingleColumns& single_right(const ProductPlan& plan, const Tensor<double>& b);

private:
  /// A tensor of right matrices, packed as it was asked for.
  struct Right {
    std::span<const double> elements;
    std::vector<double> own;           ///< these, unless they are a constant's
    const double* constant = nullptr;  ///< the one that these are
    std::int64_t k = 0, n = 0, row = 0, column = 0;
    std::vector<std::int64_t> offsets;
    std::optional<Magnitude> norm;
    std::optional<bool> are_floats;
    bool has_coarse = false;
    std::optional<CoarseWeights> coarse;
    std::optional<RightColumns> columns;
    std::optional<PackedFactor> forward, transposed;
    PackedMatrices<float> transposed_in_single;
    std::optional<SingleColumns> single;
  };
  Right& right(const ProductPlan& plan, const Tensor<double>& b);
  struct Known {
    std::vector<double> elements;
    std::int64_t rows = 0, columns = 0;
    Magnitude norm;
  };
  /// Of a constant that is one matrix, as it is stored.
  Magnitude norm_of_whole(const Tensor<double>& constant, std::int64_t rows, std::int64_t columns, int threads);
  /// Of a matrix that may come again under another address.
  Magnitude known_norm(const MatrixView& matrix, int threads);

  std::mutex mutex_;
  struct KnownConstant {
    StoredTensor stored;  ///< keeps its bytes where they are
    Tensor<double> values;
  };
  std::map<std::tuple<const std::byte*, ElementType, Shape>, KnownConstant> constants_;
  std::set<const double*> addresses_;               ///< of constants
  std::map<const double*, Magnitude> whole_norms_;  ///< of constants that are one matrix, by address
  std::vector<Known> known_;
  std::list<Right> rights_;
};

}  // namespace driftbound::bounds
