#pragma once

#include <concepts>

#include "driftbound/model/ops.hpp"

namespace driftbound {

// Groups of ops that many parts answer for in one overload.

template <class T, class... Alternatives>
concept OneOf = (std::same_as<T, Alternatives> || ...);

/// y_i = f(x_i)
template <class T>
concept ElementwiseUnary =
    OneOf<T, op::Neg, op::Relu, op::LeakyRelu, op::Elu, op::Tanh, op::Sigmoid, op::Softplus, op::Sin, op::Cos, op::Exp,
          op::Erf, op::Sqrt, op::Cast, op::Abs, op::Reciprocal, op::Log, op::Tan, op::Atan, op::Sinh, op::Cosh,
          op::Floor, op::Ceil, op::Sign, op::Pow, op::Clip, op::ThresholdedRelu>;

/// A truth value of two numbers, 0 or 1
template <class T>
concept Comparison = OneOf<T, op::Greater, op::GreaterOrEqual, op::Equal>;

/// y_i = a_i op b_i with broadcasting
template <class T>
concept ElementwiseBinary = Comparison<T> || OneOf<T, op::Add, op::Sub, op::Mul, op::Div, op::Min, op::Max, op::PRelu>;

/// One output element for every group of input elements
template <class T>
concept Reduction = OneOf<T, op::ReduceSum, op::ReduceMax, op::ReduceMin>;

/// Selections of all elements in the order they have.
template <class T>
concept Reshaping = OneOf<T, op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze, op::Identity>;

/// Every output element is an input element, or a constant of the op (fill_value).
template <class T>
concept Selection = Reshaping<T> ||
    OneOf<T, op::Concat, op::Transpose, op::Slice, op::Gather, op::Expand, op::Tile, op::Pad, op::Where, op::Windows>;

/// Every output element is an input element, perhaps negated, 0, or a constant of the op.
template <class T>
concept Copying =
    Selection<T> || OneOf<T, op::Neg, op::Abs, op::Relu, op::ThresholdedRelu, op::Clip, op::Min, op::Max, op::MinOf,
                          op::MaxOf, op::ReduceMin, op::ReduceMax, op::MaxPool, op::GlobalMaxPool, op::Choice>;

/// A composite that reduces `axes`
template <class T>
concept CompositeReduction =
    OneOf<T, op::ReduceMean, op::ReduceL1, op::ReduceL2, op::ReduceSumSquare, op::ReduceLogSum, op::ReduceLogSumExp>;

/// Means a graph of simpler ops (model/composite.hpp)
template <class T>
concept Composite = CompositeReduction<T> ||
    OneOf<T, op::Selu, op::Celu, op::HardSigmoid, op::HardSwish, op::Swish, op::Mish, op::Softsign, op::Gelu,
          op::LogSoftmax, op::SumOf, op::MeanOf, op::MinOf, op::MaxOf, op::BatchNormalization,
          op::InstanceNormalization, op::GroupNormalization, op::LayerNormalization, op::RMSNormalization,
          op::LpNormalization, op::Conv, op::ConvTranspose, op::MaxPool, op::AveragePool, op::GlobalAveragePool,
          op::GlobalMaxPool, op::Attention, op::RotaryEmbedding, op::Einsum>;

inline bool multiplies_matrices(const Op& op) {
  return std::holds_alternative<op::Gemm>(op) || std::holds_alternative<op::MatMul>(op);
}

}  // namespace driftbound
