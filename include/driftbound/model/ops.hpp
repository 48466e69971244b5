#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Operations as data. Attributes that ONNX passes as constant inputs (axes, target shapes) are
/// resolved by the loader, so that every input of a node is a tensor of reals.
/// Formulas are over the reals: this is the exact function that the library measures against.
namespace op {

/// y = alpha op(A) op(B) + beta C;  A [m,k], B [k,n] after the transpositions asked for, C (optional) broadcasts to
/// [m,n]
struct Gemm {
  double alpha = 1.0;
  double beta = 1.0;
  bool transpose_a = false;
  bool transpose_b = false;
};
/// numpy.matmul: batch dimensions broadcast, vectors get a dimension that is dropped again
struct MatMul {};
struct Add {};
struct Sub {};
struct Mul {};
struct Div {};
struct Neg {};
/// max(x, 0)
struct Relu {};
/// x for x >= 0, alpha x below
struct LeakyRelu {
  double alpha = 0.01;
};
/// x for x >= 0, alpha (e^x - 1) below
struct Elu {
  double alpha = 1.0;
};
struct Tanh {};
/// 1 / (1 + e^-x)
struct Sigmoid {};
/// log(1 + e^x)
struct Softplus {};
struct Sin {};
struct Cos {};
struct Exp {};
struct Erf {};
struct Sqrt {};
/// e^x_i / sum_j e^x_j over `axis` alone, or over every axis from `axis` on (opset < 13)
struct Softmax {
  std::int64_t axis = -1;
  bool all_trailing_axes = false;
};
struct Concat {
  std::int64_t axis = 0;
};
/// ONNX rules: 0 copies an extent (unless allow_zero), -1 is inferred
struct Reshape {
  std::vector<std::int64_t> target;
  bool allow_zero = false;
};
struct Flatten {
  std::int64_t axis = 1;
};
/// Empty axes: every extent of 1
struct Squeeze {
  std::vector<std::int64_t> axes;
};
struct Unsqueeze {
  std::vector<std::int64_t> axes;
};
/// Empty permutation: reversed
struct Transpose {
  std::vector<std::int64_t> permutation;
};
/// Identity, and Dropout at inference
struct Identity {};
/// The identity as an exact function; evaluators round to the target type
struct Cast {
  ElementType to = ElementType::f32;
};

}  // namespace op

/// Adding an op means adding an alternative here; every std::visit over Op then fails to compile
/// until it has an answer (docs/adding-an-op.md is the checklist).
using Op = std::variant<op::Gemm, op::MatMul, op::Add, op::Sub, op::Mul, op::Div, op::Neg, op::Relu, op::LeakyRelu,
                        op::Elu, op::Tanh, op::Sigmoid, op::Softplus, op::Sin, op::Cos, op::Exp, op::Erf, op::Sqrt,
                        op::Softmax, op::Concat, op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze, op::Transpose,
                        op::Identity, op::Cast>;

/// ONNX name of the op ("Gemm", "LeakyRelu" …).
std::string_view name_of(const Op& op);

}  // namespace driftbound
