#pragma once

#include <concepts>

#include "driftbound/model/ops.hpp"

namespace driftbound {

/// One function per alternative for std::visit. Nothing here accepts every type: an op that no overload
/// names does not compile.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

template <class T, class... Alternatives>
concept OneOf = (std::same_as<T, Alternatives> || ...);

/// y_i = f(x_i)
template <class T>
concept ElementwiseUnary = OneOf<T, op::Neg, op::Relu, op::LeakyRelu, op::Elu, op::Tanh, op::Sigmoid, op::Softplus,
                                 op::Sin, op::Cos, op::Exp, op::Erf, op::Sqrt, op::Cast>;

/// y_i = a_i op b_i with broadcasting
template <class T>
concept ElementwiseBinary = OneOf<T, op::Add, op::Sub, op::Mul, op::Div>;

/// Every output element is an input element.
template <class T>
concept Selection =
    OneOf<T, op::Concat, op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze, op::Transpose, op::Identity>;

}  // namespace driftbound
