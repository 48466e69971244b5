#pragma once

#include <string>
#include <vector>

#include "evaluate/small_graphs.hpp"

namespace driftbound::tests {

/// An op with operands in its domain.
struct OpCase {
  Op op;
  std::vector<Tensor<double>> operands;
};

/// Every op of the library at least once, with broadcasting, transposition and several axes.
inline std::vector<OpCase> every_op(std::mt19937_64& random) {
  const auto some = [&](Shape shape) { return random_tensor<double>(std::move(shape), random, 3.0); };
  const auto positive = [&](Shape shape) {
    Tensor<double> result = some(std::move(shape));
    for (double& x : result.values) x = x * x + 0.25;
    return result;
  };
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
  };
}

}  // namespace driftbound::tests
