#pragma once

#include "evaluate/values.hpp"

namespace driftbound {

/// The output of one node of a program in the declared arithmetic (docs/arithmetic.md, op by op). Every NaN is the
/// same quiet NaN.
/// Throws:    ShapeMismatch; Unsupported for a Cast to integers
template <class Real>
Tensor<Real> evaluate_node(const Program& program, std::size_t node, const ArithmeticModel& arithmetic, int threads,
                           Values<Real>& values);

}  // namespace driftbound
