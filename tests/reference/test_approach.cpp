#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "driftbound/reference/reference.hpp"
#include "random_balls.hpp"
#include "reference/apply.hpp"
#include "reference/ball_functions.hpp"
#include "reference/mpfr_range.hpp"
#include "support/approach.hpp"

// Balls whose ends are carried to the ends of the result, or nearly so.

using namespace driftbound;
using mp::bits;
using mp::Real400;

namespace {

const Real400 r = ldexp(Real400(1), -20);

BallTensor around(const std::vector<double>& midpoints, Shape shape) {
  BallTensor x(std::move(shape), bits);
  for (std::size_t i = 0; i < midpoints.size(); ++i) mp::set(x[i], Real400(midpoints[i]), Scaled::power_of_two(-20));
  return x;
}

BallTensor around(double midpoint) {
  return around({midpoint}, {1});
}

BallTensor applied(const Op& op, const std::vector<const BallTensor*>& operands) {
  return apply(op, operands, operands.front()->shape(), bits);
}

/// How much of the radius an attained value uses.
double share(const MpBall& ball, const Real400& value) {
  return Real400(abs(value - mp::midpoint(ball)) / mp::real(ball.radius)).convert_to<double>();
}

}  // namespace

TEST_CASE("what rounding a midpoint adds is what it may lose (T-30)") {
  const MpfrRange range;
  double closest = 0.0;
  for (int k = 3; k < 40; k += 2) {
    BallTensor one({1}, bits), x({1}, bits);
    assign(one[0], 1.0);
    assign(x[0], static_cast<double>(k));
    const BallTensor quotient = applied(op::Div{}, {&one, &x});
    closest = std::max(closest, share(quotient[0], Real400(1) / k));
  }
  CHECK_APPROACH("T-30", closest, 1.0);
}

TEST_CASE("sums, products, quotients and roots at the ends of their operands (T-31, T-32)") {
  const MpfrRange range;
  const BallTensor x = around(1.0), y = around(2.0);
  CHECK_APPROACH("T-31", share(applied(op::Add{}, {&x, &y})[0], 3 + 2 * r), 1.0);
  CHECK_APPROACH("T-31", share(applied(op::Mul{}, {&x, &y})[0], (1 + r) * (2 + r)), 1.0);
  CHECK_APPROACH("T-31", share(applied(op::Div{}, {&x, &y})[0], (1 + r) / (2 - r)), 1.0);
  const BallTensor wide = around(0x1p-20);
  CHECK_APPROACH("T-31", share(applied(op::Sqrt{}, {&wide})[0], Real400(0)), 1.0);
  const BallTensor a = around({1.0, 2.0, 3.0}, {1, 3}), b = around({3.0, 2.0, 1.0}, {3, 1});
  const BallTensor* operands[] = {&a, &b};
  const BallTensor product = apply(op::MatMul{}, operands, {1, 1}, bits);
  CHECK_APPROACH("T-32", share(product[0], 2 * (1 + r) * (3 + r) + (2 + r) * (2 + r)), 1.0);
}

TEST_CASE("functions at the ends of their operands (T-33, T-34, T-35, T-37, T-38)") {
  const MpfrRange range;
  const BallTensor one = around(1.0), zero = around(0.0);
  CHECK_APPROACH("T-33", share(applied(op::Exp{}, {&one})[0], exp(1 + r)), 1.0);
  CHECK_APPROACH("T-33", share(applied(op::Tanh{}, {&zero})[0], tanh(r)), 1.0);
  CHECK_APPROACH("T-33", share(applied(op::Sin{}, {&zero})[0], sin(r)), 1.0);
  CHECK_APPROACH("T-34", share(applied(op::Relu{}, {&zero})[0], r), 1.0);
  const BallTensor logits = around({0.0, 0.0}, {2});
  CHECK_APPROACH("T-35", share(applied(op::Softmax{}, {&logits})[0], 1 / (1 + exp(-2 * r))), 0.5);
  CHECK_APPROACH("T-37", share(applied(op::Log{}, {&one})[0], log(1 - r)), 1.0);
  CHECK_APPROACH("T-37", share(applied(op::Reciprocal{}, {&one})[0], 1 / (1 - r)), 1.0);
  CHECK_APPROACH("T-38", share(applied(op::Abs{}, {&zero})[0], r), 1.0);
  const BallTensor inside = around(1.0 + 0x1p-20);
  CHECK_EXACT("T-38", mp::midpoint(applied(op::Floor{}, {&inside})[0]) == 1);
}

TEST_CASE("a radius is what hi + lo leave of a number (T-36)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}});
  graph.outputs = {graph.add_node("y", op::Reciprocal{}, {x})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<double>({1}, {3.0})));
  const Ball third = certified_reference(graph, inputs).layers[0].values[0];
  const Real400 left = abs(Real400(1) / 3 - third.hi - third.lo);
  CHECK_APPROACH("T-36", Real400(left / third.radius.value()).convert_to<double>(), 1.0);
}
