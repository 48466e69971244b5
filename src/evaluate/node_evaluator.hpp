#pragma once

#include "driftbound/trace/product_kernel.hpp"
#include "evaluate/values.hpp"

namespace driftbound {

/// The output of one node of a program in the declared arithmetic (docs/arithmetic.md, op by op), its products by the
/// kernel; null: as the arithmetic declares them. Every NaN is the same quiet NaN.
/// Throws:    ShapeMismatch; Unsupported for a Cast to integers
template <class Real>
Tensor<Real> evaluate_node(const Program& program, std::size_t node, const ArithmeticModel& arithmetic,
                           const ProductKernel* kernel, int threads, Values<Real>& values);

}  // namespace driftbound
