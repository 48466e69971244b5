#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "driftbound/num/elementary.hpp"
#include "evaluate/small_graphs.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::tests;

constexpr float inf = std::numeric_limits<float>::infinity();

ArithmeticModel fp32(SummationOrder order = {SummationOrder::Kind::sequential, 0, false}) {
  return cpu_arithmetic("fp32", order);
}

std::vector<double> apply_to(const Op& op, std::vector<float> x) {
  const auto size = static_cast<std::int64_t>(x.size());
  return apply<float>(op, {tensor<float>({size}, std::move(x))}, fp32()).values;
}

template <class F>
void check_function(const Op& op, F f) {
  const std::vector<float> x = {-inf, -100.0f, -1.5f, -0x1p-140f, -0.0f, 0.0f, 1e-3f, 0.7f, 3.0f, 90.0f, inf};
  const std::vector<double> y = apply_to(op, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const float expected = f(x[i]);
    if (std::isnan(expected)) {
      CHECK(std::isnan(y[i]));
    } else {
      CHECK(std::bit_cast<std::uint64_t>(y[i]) == std::bit_cast<std::uint64_t>(static_cast<double>(expected)));
    }
  }
}

TEST_CASE("elementwise ops in float are the library's functions, each rounded once") {
  check_function(op::Neg{}, [](float x) { return -x; });
  check_function(op::Relu{}, [](float x) { return x < 0 ? 0.0f : x; });
  check_function(op::LeakyRelu{0.1}, [](float x) { return x < 0 ? 0.1f * x : x; });
  check_function(op::Elu{0.7}, [](float x) { return x < 0 ? 0.7f * expm1_f32(x) : x; });
  check_function(op::Elu{}, [](float x) { return x < 0 ? expm1_f32(x) : x; });
  check_function(op::Tanh{}, tanh_f32);
  check_function(op::Sigmoid{}, sigmoid_f32);
  check_function(op::Softplus{}, softplus_f32);
  check_function(op::Sin{}, sin_f32);
  check_function(op::Cos{}, cos_f32);
  check_function(op::Exp{}, exp_f32);
  check_function(op::Erf{}, erf_f32);
  check_function(op::Sqrt{}, [](float x) { return std::sqrt(x); });
  check_function(op::Identity{}, [](float x) { return x; });
}

TEST_CASE("binary ops broadcast and round once") {
  const auto a = tensor<float>({2, 1}, {0.1f, 3.0f}), b = tensor<float>({3}, {0.7f, -0.3f, 1e8f});
  const auto check = [&](const Op& op, auto f) {
    const Tensor<double> y = apply<float>(op, {a, b}, fp32());
    CHECK(y.shape == Shape{2, 3});
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(y.values[i] == static_cast<double>(f(a.values[i / 3], b.values[i % 3])));
    }
  };
  check(op::Add{}, [](float x, float y) { return x + y; });
  check(op::Sub{}, [](float x, float y) { return x - y; });
  check(op::Mul{}, [](float x, float y) { return x * y; });
  check(op::Div{}, [](float x, float y) { return x / y; });
}

TEST_CASE("Softmax subtracts the largest, adds the exponentials in the declared order and divides") {
  std::mt19937_64 random(6);
  const Tensor<float> x = random_tensor<float>({2, 11, 3}, random, 4.0);
  for (const std::int64_t block : {3, 100}) {
    const Tensor<double> y =
        apply<float>(op::Softmax{1, false}, {x}, fp32({SummationOrder::Kind::blocked, block, true}));
    for (std::size_t group = 0; group < 6; ++group) {
      const auto at = [&](std::size_t j) { return (group / 3 * 11 + j) * 3 + group % 3; };
      float largest = -inf;
      for (std::size_t j = 0; j < 11; ++j) largest = std::max(largest, x.values[at(j)]);
      float e[11], total = 0, part = 0;
      for (std::size_t j = 0; j < 11; ++j) {
        e[j] = exp_f32(x.values[at(j)] - largest);
        part += e[j];
        if ((j + 1) % static_cast<std::size_t>(block) == 0 || j == 10) total += std::exchange(part, 0.0f);
      }
      for (std::size_t j = 0; j < 11; ++j) CHECK(y.values[at(j)] == static_cast<double>(e[j] / total));
    }
  }
}

TEST_CASE("sums of Softmax and ReduceSum are dealt to lanes as those of products are") {
  std::mt19937_64 random(7);
  const Tensor<float> x = random_tensor<float>({3, 13}, random, 4.0);
  const auto in_warp = fp32(parse_summation_order("lanes:4x1/halves"));
  const auto added = [](const float* terms) {
    float lanes[4] = {};
    for (std::size_t j = 0; j < 13; ++j) lanes[j % 4] += terms[j];
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  };
  const Tensor<double> sums = apply<float>(op::ReduceSum{{1}, true}, {x}, in_warp);
  const Tensor<double> y = apply<float>(op::Softmax{1, false}, {x}, in_warp);
  for (std::size_t row = 0; row < 3; ++row) {
    const float* const first = &x.values[row * 13];
    CHECK(sums.values[row] == static_cast<double>(added(first)));
    float e[13];
    for (std::size_t j = 0; j < 13; ++j) e[j] = exp_f32(first[j] - *std::max_element(first, first + 13));
    for (std::size_t j = 0; j < 13; ++j) CHECK(y.values[row * 13 + j] == static_cast<double>(e[j] / added(e)));
  }
}

TEST_CASE("Softmax over all trailing axes is Softmax over one axis of the flattened value") {
  std::mt19937_64 random(7);
  const Tensor<float> x = random_tensor<float>({2, 3, 4}, random), flat({2, 12}, x.values);
  CHECK(apply<float>(op::Softmax{1, true}, {x}, fp32()).values ==
        apply<float>(op::Softmax{1, false}, {flat}, fp32()).values);
}

TEST_CASE("Cast rounds to its target and to nothing wider than the arithmetic") {
  const std::vector<double> x = {1.0 + 0x1p-30, 1.0 + 0x1p-12, 1.0 + 0x1p-9, 65520.0};
  const auto cast = [&](ElementType to, const char* arithmetic) {
    return apply<double>(op::Cast{to}, {tensor<double>({4}, x)}, cpu_arithmetic(arithmetic, fp32().order)).values;
  };
  CHECK(cast(ElementType::f64, "fp64") == x);
  CHECK(cast(ElementType::f32, "fp64") == std::vector<double>{1.0, x[1], x[2], x[3]});
  CHECK(cast(ElementType::f64, "fp32") == std::vector<double>{1.0, x[1], x[2], x[3]});
  CHECK(cast(ElementType::f16, "fp32") == std::vector<double>{1.0, 1.0, 1.0 + 0x1p-9, INFINITY});
  CHECK(cast(ElementType::bf16, "fp32") == std::vector<double>{1.0, 1.0, 1.0, 65536.0});
}

TEST_CASE(
    "wide constants are rounded where they are used: products to the operand format, the rest to the accumulator") {
  const double w = 1.0 + 0x1p-11 + 0x1p-40;  // to tf32 (11 bits) in one step 1 + 2^-10, by way of float32 1
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, dimensions({open, 1}));
  const ValueId weight = graph.add_constant("w", StoredTensor::from(tensor<double>({1, 1}, {w})));
  const ValueId product = graph.add_node("product", op::MatMul{}, {x, weight});
  const ValueId sum = graph.add_node("sum", op::Add{}, {x, weight});
  graph.outputs = {product, sum};
  const Inputs data = inputs({{"x", StoredTensor::from(tensor<double>({1, 1}, {w}))}});
  const Trace trace = cpu_evaluator(cpu_arithmetic("tf32", fp32().order)).run(graph, data);
  CHECK(trace.layers[0].output.to_double().values[0] == (1.0 + 0x1p-10) * (1.0 + 0x1p-10));
  CHECK(trace.layers[1].output.to_double().values[0] == 2.0 + 0x1p-10);
}

}  // namespace
