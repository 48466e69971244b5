#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Shape of the op's output for the shapes of its inputs (as many as the op's arity allows).
/// Throws:    ShapeMismatch naming the shapes that do not fit
Shape output_shape(const Op& op, std::span<const Shape> inputs);

/// Whether the operand broadcasts to the result without stretching the result.
bool broadcasts_to(const Shape& operand, const Shape& result);

/// The axis counted from the front.
/// Throws:    ShapeMismatch unless -rank <= axis < rank
std::size_t normalized_axis(std::int64_t axis, std::size_t rank);

/// For every axis whether a reduction over `axes` (empty: all) sums over it.
/// Throws:    ShapeMismatch (an axis that is not there, or named twice)
std::vector<bool> reduced_axes(const std::vector<std::int64_t>& axes, std::size_t rank);

/// The permutation that a Transpose applies to a value of this rank: output axis i is input axis permutation[i].
/// Throws:    ShapeMismatch unless the op's permutation is one of this rank
std::vector<std::size_t> permutation_of(const op::Transpose& transpose, std::size_t rank);

/// Extents of a matrix product: result [batch..., m, n] with the last two dropped for vectors.
struct ProductExtents {
  Shape a_batch, b_batch, batch;
  std::int64_t m = 1, n = 1, k = 1;
};
/// Throws:    ShapeMismatch
ProductExtents product_extents(const op::Gemm& gemm, const Shape& a, const Shape& b);
ProductExtents product_extents(const op::MatMul& matmul, const Shape& a, const Shape& b);

}  // namespace driftbound
