#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Index arithmetic of the ops, shared by everything that walks a graph (evaluators, references,
/// bounds), so that a shape rule exists once.

/// Where the elements of a broadcast operand lie: operand index of every output index.
class BroadcastIndex {
public:
  BroadcastIndex(const Shape& operand, const Shape& result);
  std::size_t operator()(std::size_t output) const { return identity_ ? output : offsets_[output]; }
  bool is_identity() const { return identity_; }

private:
  bool identity_ = false;
  std::vector<std::size_t> offsets_;
};

/// A product of matrices C[b,i,j] = sum_k A[b,i,k] B[b,k,j], result row-major [batches, m, n].
struct ProductPlan {
  std::int64_t batches = 1, m = 1, n = 1, k = 1;
  std::vector<std::int64_t> a_batch, b_batch;  ///< offset of each batch's matrix
  std::int64_t a_row = 0, a_col = 0;           ///< strides of A in i and k
  std::int64_t b_row = 0, b_col = 0;           ///< strides of B in k and j
  std::size_t a_index(std::int64_t batch, std::int64_t i, std::int64_t k_) const {
    return static_cast<std::size_t>(a_batch[static_cast<std::size_t>(batch)] + i * a_row + k_ * a_col);
  }
  std::size_t b_index(std::int64_t batch, std::int64_t k_, std::int64_t j) const {
    return static_cast<std::size_t>(b_batch[static_cast<std::size_t>(batch)] + k_ * b_row + j * b_col);
  }
};

/// Throws:    ShapeMismatch
ProductPlan plan_product(const op::Gemm& gemm, const Shape& a, const Shape& b);
ProductPlan plan_product(const op::MatMul& matmul, const Shape& a, const Shape& b);

/// Groups of a reduction: element j of group (o, i) lies at (o * length + j) * inner + i.
struct ReductionPlan {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::size_t index(std::int64_t o, std::int64_t j, std::int64_t i) const {
    return static_cast<std::size_t>((o * length + j) * inner + i);
  }
};
ReductionPlan plan_reduction(const op::Softmax& softmax, const Shape& shape);

/// Groups of a reduction over any axes: element j of group g lies at groups[g] + elements[j]. Output element g is that
/// of group g.
struct GroupPlan {
  std::vector<std::size_t> groups, elements;
};
/// Groups over `axes` (empty: all).
/// Throws:    ShapeMismatch (an axis that is not there, or named twice)
GroupPlan plan_groups(const std::vector<std::int64_t>& axes, const Shape& shape);
/// Throws:    InvalidArgument where the op is no ReduceSum, ReduceMax or ReduceMin
GroupPlan plan_groups(const Op& op, const Shape& shape);

/// Whether the op only moves elements (Concat, Reshape, Transpose, Slice, Pad …).
bool is_selection(const Op& op);

/// Whether the elements stay where they are in row-major order.
bool keeps_order(const Op& op);

/// Source of one element of a selection's output.
struct ElementSource {
  static constexpr std::size_t fill = static_cast<std::size_t>(-1);
  std::size_t input = 0;  ///< slot; `fill`: the op's fill_value
  std::size_t index = 0;
  bool is_fill() const { return input == fill; }
};
/// What a selection writes where no input element goes (Pad, Windows); 0 for ops that never do.
double fill_value(const Op& op);
/// One entry per output element.
std::vector<ElementSource> plan_selection(const Op& op, const std::vector<Shape>& inputs, const Shape& output);

/// Applies a selection to tensors of any element type.
template <class T>
Tensor<T> select(const Op& op, std::span<const Tensor<T>* const> inputs, const Shape& output) {
  std::vector<Shape> shapes;
  for (const Tensor<T>* input : inputs) shapes.push_back(input->shape);
  Tensor<T> result(output);
  const std::vector<ElementSource> sources = plan_selection(op, shapes, output);
  for (std::size_t i = 0; i < sources.size(); ++i)
    result.values[i] =
        sources[i].is_fill() ? static_cast<T>(fill_value(op)) : inputs[sources[i].input]->values[sources[i].index];
  return result;
}

}  // namespace driftbound
