#pragma once

#include <concepts>

#include "driftbound/model/ops.hpp"

namespace driftbound {

// Groups of ops that many parts answer for in one overload.

template <class T, class... Alternatives>
concept OneOf = (std::same_as<T, Alternatives> || ...);

/// y_i = f(x_i)
template <class T>
concept ElementwiseUnary = T::group == OpGroup::unary;

/// A truth value of two numbers, 0 or 1
template <class T>
concept Comparison = T::group == OpGroup::comparison;

/// y_i = a_i op b_i with broadcasting
template <class T>
concept ElementwiseBinary = Comparison<T> || T::group == OpGroup::binary;

/// One output element for every group of input elements
template <class T>
concept Reduction = T::group == OpGroup::reduction;

/// Selections of all elements in the order they have.
template <class T>
concept Reshaping = T::group == OpGroup::reshaping;

/// Every output element is an input element, or a constant of the op (fill_value).
template <class T>
concept Selection = Reshaping<T> || T::group == OpGroup::selection;

/// Every output element is an input element, perhaps negated, 0, or a constant of the op.
template <class T>
concept Copying =
    Selection<T> || OneOf<T, op::Neg, op::Abs, op::Relu, op::ThresholdedRelu, op::Clip, op::Min, op::Max, op::MinOf,
                          op::MaxOf, op::ReduceMin, op::ReduceMax, op::MaxPool, op::GlobalMaxPool, op::Choice>;

/// A composite that reduces `axes`
template <class T>
concept CompositeReduction = T::group == OpGroup::composite_reduction;

/// A composite with y_i = f(x_i)
template <class T>
concept CompositeFunction = T::group == OpGroup::composite_function;

/// Means a graph of simpler ops (model/composite.hpp)
template <class T>
concept Composite = CompositeReduction<T> || CompositeFunction<T> || T::group == OpGroup::composite;

inline bool multiplies_matrices(const Op& op) {
  return std::holds_alternative<op::Gemm>(op) || std::holds_alternative<op::MatMul>(op);
}

}  // namespace driftbound
