#pragma once

#include <string>
#include <vector>

#include "driftbound/model/composite.hpp"
#include "evaluate/small_graphs.hpp"

namespace driftbound::tests {

/// An op with operands in its domain.
struct OpCase {
  Op op;
  std::vector<Tensor<double>> operands;
};

/// Windows of 2 by 2 with dilation, stride and pads.
inline op::WindowGeometry some_windows() {
  return {{2, 2}, {2, 1}, {1, 2}, {1, 0}, {0, 1}, op::WindowGeometry::AutoPad::none, false};
}

/// Broadcasting, transposition and several axes of the ops that are no composites.
inline std::vector<OpCase> every_primitive(std::mt19937_64& random) {
  const auto some = [&](Shape shape) { return random_tensor<double>(std::move(shape), random, 3.0); };
  const auto positive = [&](Shape shape) {
    Tensor<double> result = some(std::move(shape));
    for (double& x : result.values) x = x * x + 0.25;
    return result;
  };
  // Does not advance `random`, so that the operands of all other ops stay what they are.
  auto apart = [random](Shape shape) mutable { return random_tensor<double>(std::move(shape), random, 3.0); };
  Tensor<double> x = some({8});
  for (double& value : x.values) value = static_cast<double>(static_cast<float>(value));  // equal when read, too
  Tensor<double> next_to_x = x;  // so near that a cast to float16 may change their order
  for (std::size_t i = 0; i < next_to_x.size(); ++i) next_to_x.values[i] *= 1.0 + (i % 2 == 0 ? 0x1p-12 : -0x1p-12);
  Tensor<double> x_but_once = x;
  x_but_once.values[0] += 1.0 / 3.0;
  return {
      {op::Gemm{}, {some({3, 4}), some({4, 5}), some({5})}},
      {op::Gemm{0.3, -1.7, true, true}, {some({4, 3}), some({5, 4}), some({3, 1})}},
      {op::Gemm{2.5, 1.0, false, true}, {some({3, 4}), some({5, 4})}},
      {op::MatMul{}, {some({2, 3, 4}), some({4, 5})}},
      {op::MatMul{}, {some({3, 1, 2, 4}), some({2, 4, 3})}},
      {op::MatMul{}, {some({4}), some({2, 4, 3})}},
      {op::MatMul{}, {some({4}), some({4})}},
      {op::Add{}, {some({2, 3}), some({3})}},
      {op::Sub{}, {some({2, 1, 3}), some({4, 1})}},
      {op::Mul{}, {some({}), some({2, 3})}},
      {op::Div{}, {some({2, 3}), positive({2, 1})}},
      {op::Neg{}, {some({5})}},
      {op::Relu{}, {some({5})}},
      {op::LeakyRelu{0.1}, {some({5})}},
      {op::Elu{1.0}, {some({5})}},
      {op::Elu{0.7}, {some({5})}},
      {op::Tanh{}, {some({5})}},
      {op::Sigmoid{}, {some({5})}},
      {op::Softplus{}, {some({5})}},
      {op::Sin{}, {some({5})}},
      {op::Cos{}, {some({5})}},
      {op::Exp{}, {some({5})}},
      {op::Erf{}, {some({5})}},
      {op::Sqrt{}, {positive({5})}},
      {op::Softmax{-1, false}, {some({3, 4})}},
      {op::Softmax{1, false}, {some({2, 3, 4})}},
      {op::Softmax{1, true}, {some({2, 3, 4})}},
      {op::Concat{1}, {some({2, 3}), some({2, 1}), some({2, 2})}},
      {op::Reshape{{3, -1}, false}, {some({2, 3})}},
      {op::Flatten{1}, {some({2, 3, 2})}},
      {op::Squeeze{{1}}, {some({2, 1, 3})}},
      {op::Unsqueeze{{0}}, {some({2, 3})}},
      {op::Transpose{{2, 0, 1}}, {some({2, 3, 4})}},
      {op::Identity{}, {some({5})}},
      {op::Cast{ElementType::f64}, {some({5})}},
      {op::Abs{}, {some({5})}},
      {op::Reciprocal{}, {positive({5})}},
      {op::Log{}, {positive({5})}},
      {op::Tan{}, {some({5})}},
      {op::Atan{}, {some({5})}},
      {op::Sinh{}, {some({5})}},
      {op::Cosh{}, {some({5})}},
      {op::Floor{}, {some({5})}},
      {op::Ceil{}, {some({5})}},
      {op::Round{}, {apart({5})}},
      {op::Sign{}, {some({5})}},
      {op::Pow{3.0}, {some({5})}},
      {op::Pow{0.5}, {positive({5})}},
      {op::Pow{-1.25}, {positive({5})}},
      {op::Clip{1.0, -0.5}, {some({5})}},
      {op::Clip{-1.0, 2.0}, {some({5})}},
      {op::Clip{0.5}, {some({5})}},
      {op::ThresholdedRelu{0.5}, {some({5})}},
      {op::Min{}, {some({2, 1, 3}), some({4, 1})}},
      {op::Max{}, {some({2, 3}), some({3})}},
      {op::PRelu{}, {some({2, 3, 2}), some({3, 1})}},
      {op::Greater{}, {x, next_to_x}},
      {op::Greater{}, {some({2, 3}), some({3})}},
      {op::GreaterOrEqual{}, {next_to_x, x}},
      {op::Equal{}, {x, next_to_x}},
      {op::Equal{}, {x, x_but_once}},
      {op::Choice{}, {some({2, 1, 3}), some({4, 1}), some({3})}},
      {op::ReduceSum{{1}, true}, {some({2, 3, 4})}},
      {op::ReduceSum{{}, false}, {some({2, 3})}},
      {op::ReduceMax{{0, -1}, false}, {some({2, 3, 4})}},
      {op::ReduceMin{{-2}, true}, {some({2, 3, 4})}},
      {op::Slice{{-1, 0}, {-10, 3}, {1, 0}, {-2, 1}}, {some({4, 5})}},
      {op::Gather{1, {2, 2}, {0, -1, 2, 0}}, {some({2, 3, 2})}},
      {op::Expand{{2, 3, 4}}, {some({3, 1})}},
      {op::Tile{{2, 3}}, {some({2, 2})}},
      {op::Pad{op::Pad::Mode::constant, {1, 0}, {0, 2}, 1.5}, {some({2, 3})}},
      {op::Pad{op::Pad::Mode::reflect, {2, 1}, {0, -1}, 0.0}, {some({3, 4})}},
      {op::Pad{op::Pad::Mode::edge, {1}, {2}, 0.0}, {some({3})}},
      {op::Pad{op::Pad::Mode::wrap, {2}, {1}, 0.0}, {some({3})}},
      {op::Where{{2, 1}, {true, false}}, {some({2, 3}), some({3})}},
      {op::Windows{some_windows(), op::Windows::Outside::zero}, {some({1, 2, 5, 4})}},
      {op::Windows{some_windows(), op::Windows::Outside::nearest}, {some({1, 2, 5, 4})}},
  };
}

/// A product, its Gelu and a LayerNormalization without a bias, one of which is a composite.
inline op::Segment some_segment() {
  Graph steps;
  const ValueId x = steps.add_input("x", ElementType::f32, {{3, ""}, {4, ""}});
  const ValueId w = steps.add_input("w", ElementType::f32, {{4, ""}, {5, ""}});
  const ValueId scale = steps.add_input("scale", ElementType::f32, {{5, ""}});
  const ValueId product = steps.add_node("product", op::MatMul{}, {x, w});
  const ValueId activated = steps.add_node("activated", op::Gelu{}, {product});
  steps.outputs = {steps.add_node("normed", op::LayerNormalization{-1, 1e-2}, {activated, scale})};
  return {std::make_shared<const Graph>(std::move(steps))};
}

/// Axes, groups, strides and pads of the composites.
inline std::vector<OpCase> every_composite(std::mt19937_64& random) {
  const auto some = [&](Shape shape) { return random_tensor<double>(std::move(shape), random, 3.0); };
  const auto positive = [&](Shape shape) {
    Tensor<double> result = some(std::move(shape));
    for (double& x : result.values) x = x * x + 0.25;
    return result;
  };
  const op::WindowGeometry pooled{{2, 3}, {2, 1}, {}, {0, 1}, {1, 1}, op::WindowGeometry::AutoPad::none, true};
  const op::WindowGeometry same{{3}, {2}, {}, {}, {}, op::WindowGeometry::AutoPad::same_lower, false};
  return {
      {op::Selu{}, {some({5})}},
      {op::Celu{0.75}, {some({5})}},
      {op::HardSigmoid{}, {some({5})}},
      {op::HardSwish{}, {some({5})}},
      {op::Swish{1.5}, {some({5})}},
      {op::Mish{}, {some({5})}},
      {op::Softsign{}, {some({5})}},
      {op::Gelu{false}, {some({5})}},
      {op::Gelu{true}, {some({5})}},
      {op::LogSoftmax{1, false}, {some({2, 3, 4})}},
      {op::LogSoftmax{1, true}, {some({2, 3, 4})}},
      {op::MaskedSoftmax{-1, {4}, {true, false, true, true}}, {some({2, 3, 4})}},
      {op::MaskedSoftmax{1, {3, 1}, {true, false, true}}, {some({2, 3, 4})}},
      {op::SumOf{}, {some({2, 3}), some({3}), some({2, 1})}},
      {op::MeanOf{}, {some({2, 3}), some({3}), some({})}},
      {op::MinOf{}, {some({2, 3}), some({3}), some({2, 1})}},
      {op::MaxOf{}, {some({4})}},
      {op::ReduceMean{{0, 2}, false}, {some({2, 3, 4})}},
      {op::ReduceL1{{-1}, true}, {some({2, 3})}},
      {op::ReduceL2{{}, false}, {some({2, 3})}},
      {op::ReduceSumSquare{{0}, true}, {some({2, 3})}},
      {op::ReduceLogSum{{1}, true}, {positive({2, 3})}},
      {op::ReduceLogSumExp{{0}, false}, {some({2, 3})}},
      {op::BatchNormalization{}, {some({2, 3, 2}), some({3}), some({3}), some({3}), positive({3})}},
      {op::InstanceNormalization{1e-2}, {some({2, 3, 4}), some({3}), some({3})}},
      {op::GroupNormalization{2, 1e-2, false}, {some({2, 4, 3}), some({4}), some({4})}},
      {op::GroupNormalization{2, 1e-2, true}, {some({1, 4, 2, 2}), some({2}), some({2})}},
      {op::LayerNormalization{-1, 1e-2}, {some({2, 5}), some({5}), some({5})}},
      {op::LayerNormalization{1, 1e-2}, {some({2, 3, 2}), some({3, 2})}},
      {op::RMSNormalization{-1, 1e-5}, {some({2, 5}), some({5})}},
      {op::LpNormalization{0, 1}, {some({3, 2})}},
      {op::LpNormalization{-1, 2}, {some({3, 2})}},
      {op::Conv{some_windows(), 2}, {some({1, 4, 5, 4}), some({2, 2, 2, 2}), some({2})}},
      {op::Conv{same, 1}, {some({2, 2, 6}), some({3, 2, 3})}},
      {op::ConvTranspose{{{}, {2}, {2}, {1}, {0}}, 2, {1}, {}}, {some({1, 4, 3}), some({4, 1, 2}), some({2})}},
      {op::MaxPool{pooled}, {some({1, 2, 4, 4})}},
      {op::MaxPool{same}, {some({2, 1, 5})}},
      {op::AveragePool{pooled, true}, {some({1, 2, 4, 4})}},
      {op::AveragePool{pooled, false}, {some({1, 2, 4, 4})}},
      {op::GlobalAveragePool{}, {some({2, 3, 2, 2})}},
      {op::GlobalMaxPool{}, {some({2, 3, 4})}},
      {op::ArgMax{1, false, false}, {some({2, 5, 3})}},
      {op::ArgMax{-1, true, true}, {some({2, 4})}},
      {op::ArgMax{0, true, false, true}, {some({5, 2})}},
      {op::TopK{0, 2, op::TopK::Result::values, true}, {some({5, 2})}},
      {op::TopK{-1, 3, op::TopK::Result::values}, {some({2, 7})}},
      {op::TopK{1, 2, op::TopK::Result::indices}, {some({2, 5, 2})}},
      {op::Truncate{}, {positive({2, 3})}},
      {op::GridSample{}, {some({1, 2, 3, 4}), some({1, 2, 2, 2})}},
      {op::Attention{}, {some({1, 2, 3, 4}), some({1, 2, 5, 4}), some({1, 2, 5, 2}), some({3, 5})}},
      {op::Attention{true, 0.25, 4.0, 4, 2, 0, {}, {}}, {some({1, 3, 8}), some({1, 3, 4}), some({1, 3, 4})}},
      {op::RotaryEmbedding{}, {some({1, 2, 3, 4}), some({1, 3, 2}), some({1, 3, 2})}},
      {op::RotaryEmbedding{true, 2, 2}, {some({1, 3, 8}), some({1, 3, 1}), some({1, 3, 1})}},
      {op::Einsum{"bij,bjk->bik"}, {some({2, 3, 4}), some({2, 4, 2})}},
      {op::Einsum{"ij,kj,k->i"}, {some({2, 3}), some({4, 3}), some({4})}},
  };
}

/// Every op of the library at least once.
inline std::vector<OpCase> every_op(std::mt19937_64& random) {
  std::vector<OpCase> cases = every_primitive(random);
  for (OpCase& one : every_composite(random)) cases.push_back(std::move(one));
  const auto some = [&](Shape shape) { return random_tensor<double>(std::move(shape), random, 3.0); };
  cases.push_back({op::Gemm{1.0, 0.5, true, false}, {some({2, 1, 4, 3}), some({3, 4, 2}), some({3, 1, 2})}});
  cases.push_back({some_segment(), {some({3, 4}), some({4, 5}), some({5})}});
  return cases;
}

/// Units in the last place that an op, evaluated in a few operations on operands of every_op(), may lose.
inline double units_of(const Op& op) {
  return is_composite(op) ? 4096.0 : 64.0;
}

}  // namespace driftbound::tests
