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

/// Whether a node is a matrix product whose right operand is the same for every sample.
bool multiplies_by_constant(const Program& program, const Node& node);
/// Returns, by value, whether it is a constant that is the right operand of such a product. These constants are kept in
/// OperandCache::constant().
std::vector<bool> constant_matrices(const Program& program);

class OperandCache;
/// Returns, by value, the constants of a program in double; null for values that are not constants. Those marked by
/// constant_matrices() are stored in `operands`, the others are appended to `others`.
std::vector<const Tensor<double>*> constants_of(const Program& program, OperandCache& operands,
                                                std::deque<Tensor<double>>& others);

/// Returns constants_of() and the values of nodes of constants alone that double computes exactly, which are appended to
/// `others`; null for all other values.
std::vector<const Tensor<double>*> exact_constants_of(const Program& program, const Setting& setting,
                                                      OperandCache& operands, std::deque<Tensor<double>>& others);

/// A cache of the operands of matrix products, in the forms that bounds need: constants in double, verified 2-norms,
/// and packed matrices. It is shared by all blocks of samples. Thread-safe.
class OperandCache {
public:
  /// Returns a constant in double. Stored tensors with the same address of their bytes, type and shape share one
  /// tensor. Products with it are looked up by the address of its elements. It lives as long as the cache.
  const Tensor<double>& constant(const StoredTensor& stored);

  /// Returns an upper bound of the matrix 2-norms of the left (right) matrices of all batches of a product.
  /// Source:    docs/theory.md T-63
  Magnitude norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads);
  Magnitude norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads);
  /// Returns an upper bound of the matrix 2-norm of a constant of two axes.
  Magnitude norm_of_constant(const StoredTensor& stored, int threads);

  /// Returns coarse_weights() of the right matrix that all batches of a product share; null if it is empty.
  /// Source:    docs/theory.md T-81
  const CoarseWeights* coarse_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Returns right_columns() of the right matrices, by their offset in b.
  /// Source:    docs/theory.md T-95
  const RightColumns& columns_of_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Whether all elements of b are float32 numbers.
  bool are_floats(const ProductPlan& plan, const Tensor<double>& b);
  /// Returns the elements of b.
  std::span<const double> elements_of_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Return the right matrices packed in double for A B, and for the adjoint product D Bᵀ (share_of_left()).
  /// Source:    docs/theory.md T-64
  const PackedFactor& forward_right(const ProductPlan& plan, const Tensor<double>& b);
  const PackedFactor& transposed_right(const ProductPlan& plan, const Tensor<double>& b);
  /// Returns the matrices of transposed_right() rounded to single precision.
  const PackedMatrices<float>& transposed_in_single(const ProductPlan& plan, const Tensor<double>& b);
  /// Returns the right matrices in single precision, for bounds of partial sums.
  /// Source:    docs/theory.md T-69
  const SingleColumns& single_right(const ProductPlan& plan, const Tensor<double>& b);

private:
  /// One tensor of right matrices with its layout, and the forms of it that have been requested.
  struct Right {
    std::span<const double> elements;
    std::vector<double> own;           ///< a copy of the elements, unless they belong to a constant
    const double* constant = nullptr;  ///< address of the constant that has these elements; null: none
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
  /// A matrix whose 2-norm has been bounded.
  struct Known {
    std::vector<double> elements;
    std::int64_t rows = 0, columns = 0;
    Magnitude norm;  ///< bound of the 2-norm
  };
  /// Returns a bound of the 2-norm of a constant that is one row-major matrix.
  Magnitude norm_of_whole(const Tensor<double>& constant, std::int64_t rows, std::int64_t columns, int threads);
  /// Returns a bound of the 2-norm of a matrix. It is looked up by the elements, not by the address.
  Magnitude known_norm(const MatrixView& matrix, int threads);

  std::mutex mutex_;
  struct KnownConstant {
    StoredTensor stored;  ///< keeps the bytes alive, so that their address remains valid as a key
    Tensor<double> values;
  };
  std::map<std::tuple<const std::byte*, ElementType, Shape>, KnownConstant> constants_;
  std::set<const double*> addresses_;               ///< addresses of the elements of constants
  std::map<const double*, Magnitude> whole_norms_;  ///< by address: 2-norms of constants that are one matrix
  std::vector<Known> known_;
  std::list<Right> rights_;
};

}  // namespace driftbound::bounds
