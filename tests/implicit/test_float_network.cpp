#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "allocations.hpp"
#include "driftbound/bounds/box.hpp"
#include "implicit/float_network.hpp"
#include "implicit/float_stage.hpp"
#include "implicit/kernels/block_functions.hpp"
#include "implicit/scalar_graph.hpp"
#include "implicit_networks.hpp"
#include "step_networks.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;
using implicit::block_rows;
using implicit::FloatBlockKernels;
using implicit::FloatNetwork;
using implicit::FloatStage;
using step_networks::function;
using step_networks::small_network;

namespace {

std::string name_of_kernels(const FloatBlockKernels* kernels) {
  return kernels->name;
}

Box box_of(std::size_t dimension, double half_width) {
  return {std::vector<double>(dimension, -half_width), std::vector<double>(dimension, half_width)};
}

std::vector<float> values_of(const FloatNetwork& network, const std::vector<double>& points) {
  std::vector<float> values(points.size() / network.dimension());
  const auto workspace = network.workspace();
  for (std::size_t first = 0; first < values.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, values.size() - first);
    network.evaluate(std::span(points).subspan(first * network.dimension(), count * network.dimension()), *workspace,
                     std::span(values).subspan(first, count));
  }
  return values;
}

/// The largest error / bound of the network over the box.
double approach(const Graph& graph, const std::vector<double>& points, const FloatBlockKernels& kernels,
                double half_width = 1.0) {
  const std::size_t dimension = static_cast<std::size_t>(graph.value(graph.inputs[0]).declared.back().extent);
  const Box box = box_of(dimension, half_width);
  const auto network = FloatNetwork::of(graph, box, kernels);
  REQUIRE(network != nullptr);
  const double bound = forward_error_bound(graph, FloatNetwork::arithmetic(kernels), box).error.value();
  REQUIRE(std::isfinite(bound));
  const std::vector<float> values = values_of(*network, points);
  double largest = 0.0;
  for (std::size_t row = 0; row < values.size(); ++row) {
    const auto exact =
        exact_scalar<oracle::Real400>(graph, {}, 0.0, std::span(points).subspan(row * dimension, dimension));
    const oracle::Real400 error = oracle::magnitude(exact - oracle::Real400(static_cast<double>(values[row])));
    largest = std::fmax(largest, (error / oracle::Real400(bound)).convert_to<double>());
  }
  return largest;
}

/// Signs that the stage decided, all against 400 digits: how many, and the largest error / bound.
struct Held {
  std::size_t decided = 0;
  double largest = 0.0;
};
Held hold(const FloatStage& stage, const Graph& graph, const Target& target, double iso,
          const std::vector<double>& points) {
  const std::size_t d = static_cast<std::size_t>(graph.value(graph.inputs[0]).declared.back().extent);
  std::vector<PointSign> signs(points.size() / d);
  Held held;
  if (stage.decide(points, signs) == 0) return held;
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < signs.size(); ++row) {
    if (!std::isfinite(signs[row].bound)) continue;
    const auto exact = exact_scalar<oracle::Real400>(graph, target, iso, std::span(points).subspan(row * d, d));
    const oracle::Real400 error = oracle::magnitude(exact - oracle::Real400(signs[row].value));
    held.largest = std::fmax(held.largest, (error / oracle::Real400(signs[row].bound)).convert_to<double>());
    if (signs[row].sign == Sign::undecided) continue;
    ++held.decided;
    if (static_cast<int>(signs[row].sign) != oracle::sign(exact)) ++wrong;
    CHECK(signs[row].stage == SignStage::float32_domain);
    CHECK(signs[row].bits == 24);
  }
  CHECK(wrong == 0);
  return held;
}

/// x . w for one row of weights.
Graph linear(const std::vector<float>& weights, ElementType type = ElementType::f32) {
  Graph graph;
  const auto n = static_cast<std::int64_t>(weights.size());
  const auto x = graph.add_input("x", type, {{-1, "batch"}, {n, ""}});
  const auto w = graph.add_constant("w", StoredTensor::from(Tensor<float>({n, 1}, weights)));
  graph.outputs = {graph.add_node("sum", op::MatMul{}, {x, w})};
  return graph;
}

}  // namespace

TEST_CASE("functions of blocks in float32, also fused, are within their bounds of MPFR, and approach them") {
  struct Case {
    FloatBlockKernels::Function FloatBlockKernels::*f;
    int (*exact)(mpfr_t, mpfr_srcptr, mpfr_rnd_t);
    double units, absolute_units, lower, upper, recorded;
  };
  const auto sigmoid = [](mpfr_t y, mpfr_srcptr x, mpfr_rnd_t rounding) {
    mpfr_neg(y, x, rounding);
    mpfr_exp(y, y, rounding);
    mpfr_add_ui(y, y, 1, rounding);
    return mpfr_ui_div(y, 1, y, rounding);
  };
  const auto softplus = [](mpfr_t y, mpfr_srcptr x, mpfr_rnd_t rounding) {
    mpfr_exp(y, x, rounding);
    return mpfr_log1p(y, y, rounding);
  };
  const Case cases[] = {{&FloatBlockKernels::tanh, mpfr_tanh, 0.0, 6.0, -10.0, 10.0, 0.478},
                        {&FloatBlockKernels::tanh, mpfr_tanh, 0.0, 6.0, -1e30, 1e30, 0.378},
                        {&FloatBlockKernels::expm1, mpfr_expm1, 0.0, 5.0, -30.0, 0.0, 0.19},
                        {&FloatBlockKernels::sigmoid, sigmoid, 0.0, 3.0, -30.0, 30.0, 0.48},
                        {&FloatBlockKernels::softplus, softplus, 1.0, 8.0, -30.0, 30.0, 0.47},
                        {&FloatBlockKernels::sin, mpfr_sin, 0.0, 6.0, -10.0, 10.0, 0.333},
                        {&FloatBlockKernels::cos, mpfr_cos, 0.0, 6.0, -10.0, 10.0, 0.375},
                        {&FloatBlockKernels::sin, mpfr_sin, 0.0, 6.0, -2048.0, 2048.0, 0.349},
                        {&FloatBlockKernels::cos, mpfr_cos, 0.0, 6.0, -2048.0, 2048.0, 0.397}};
  constexpr double w = 0x1p-24;
  constexpr std::size_t n = 400 * block_rows;
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels())
    for (const Case& one : cases) {
      CAPTURE(name_of_kernels(kernels));
      CAPTURE(one.lower);
      std::mt19937_64 generator(7);
      std::vector<float> x(n), y(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double size = i % 3 == 0 ? 1.0 : std::ldexp(1.0, -static_cast<int>(generator() % 40));
        const double at = std::uniform_real_distribution<double>(size * one.lower, size * one.upper)(generator);
        x[i] = static_cast<float>(at);
        if (i % 16 == 0 && one.upper > 0.0)
          x[i] = std::nextafter(static_cast<float>(std::round(at) * (M_PI / 2.0) * std::fmin(1.0, 1024.0 / one.upper)),
                                0.0F);
      }
      REQUIRE((kernels->*one.f)(x.data(), y.data(), n));
      double largest = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        const Real exact = Real(static_cast<double>(x[i])).apply(one.exact);
        const double error = abs(Real(static_cast<double>(y[i])) - exact).to_double(), size = abs(exact).to_double();
        largest = std::fmax(largest, error / (one.units * w * size + one.absolute_units * w));
      }
      CHECK_APPROACH("T-113", largest, one.recorded);
      x[5] = std::nanf("");
      const bool is_known = (kernels->*one.f)(x.data(), y.data(), n);
      CHECK((!is_known || std::isnan(y[5])));
    }
}

TEST_CASE("what polynomials of blocks in float32 interpolate they meet at the nodes") {
  using Constants = implicit::Constants<float>;
  const auto misses = [](const auto& coefficients, double lower, double upper, const auto& exact) {
    constexpr std::size_t nodes = std::extent_v<std::remove_reference_t<decltype(coefficients)>>;
    double largest = 0.0;
    for (std::size_t i = 0; i < nodes; ++i) {
      const double turn = std::cos(M_PI * static_cast<double>(2 * i + 1) / static_cast<double>(2 * nodes));
      const double x = 0.5 * (lower + upper) + 0.5 * (upper - lower) * turn;
      Real sum = 0.0;
      for (std::size_t k = nodes; k-- > 0;) sum = sum * Real(x) + Real(static_cast<double>(coefficients[k]));
      largest = std::fmax(largest, abs(sum - exact(Real(x))).to_double());
    }
    return largest;
  };
  const auto power = [](const Real& x) { return x.apply(mpfr_exp2); };
  const auto sine = [](const Real& z) { return z.apply(mpfr_sqrt).apply(mpfr_sin) / z.apply(mpfr_sqrt); };
  const auto logarithm = [](const Real& t) { return t.apply(mpfr_log1p) / t; };
  CHECK_APPROACH("T-113", misses(Constants::exp2, -0.5, 0.5, power) / (0.21 * 0x1p-24), 0.98);
  CHECK_APPROACH("T-113", misses(Constants::sine, 0.0, 2.47, sine) / (0.21 * 0x1p-24), 0.33);
  CHECK_APPROACH("T-113", misses(Constants::log1p, 0.0, 1.0, logarithm) / (0.21 * 0x1p-24), 0.57);
}

TEST_CASE("functions in float32 saturate, and their sine refuses angles beyond its range") {
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels()) {
    CAPTURE(name_of_kernels(kernels));
    const float large[] = {10.0F, 25.0F, 3e38F, HUGE_VALF, -10.0F, -3e38F, -HUGE_VALF, 0.0F};
    float y[8];
    REQUIRE(kernels->tanh(large, y, 8));
    for (const float one : {y[0], y[1], y[2], y[3], -y[4], -y[5], -y[6]}) CHECK(std::fabs(1.0F - one) <= 0x1p-23F);
    REQUIRE(kernels->sigmoid(large, y, 8));
    for (const float one : {y[2], y[3], 1.0F - y[5], 1.0F - y[6]}) CHECK(std::fabs(1.0F - one) <= 0x1p-23F);
    REQUIRE(kernels->softplus(large, y, 8));
    CHECK(y[2] == 3e38F);
    CHECK(std::fabs(y[5]) <= 0x1p-24F);
    for (const auto f : {kernels->sin, kernels->cos}) {
      std::vector<float> angles(block_rows, 0x1p11F);
      CHECK(f(angles.data(), angles.data(), block_rows));
      for (const float beyond : {std::nextafter(0x1p11F, 0x1p12F), -0x1p12F, HUGE_VALF})
        for (const std::size_t at : {std::size_t{0}, block_rows - 1}) {
          std::vector<float> x(block_rows, 1.0F);
          x[at] = beyond;
          CHECK_FALSE(f(x.data(), x.data(), block_rows));
        }
    }
    std::vector<float> x(block_rows), product(block_rows), multiple(block_rows);
    for (std::size_t i = 0; i < block_rows; ++i) x[i] = 0x1p11F / 30.0F / static_cast<float>(i + 1);
    for (std::size_t i = 0; i < block_rows; ++i) product[i] = x[i] * 30.0F;
    CHECK(kernels->sin(product.data(), product.data(), block_rows));
    CHECK(kernels->sin_of_multiple(x.data(), 30.0F, multiple.data(), block_rows));
    CHECK(multiple == product);
  }
}

TEST_CASE("every step in float32 is within the bound over the box, points rounded, and approaches it") {
  std::vector<std::pair<double, Graph>> cases;
  const auto add = [&](double recorded, std::int64_t width, const auto& middle) {
    cases.emplace_back(recorded, small_network(width, 100 + cases.size(), middle));
  };
  add(0.0442, 13, function(op::Relu{}));
  add(0.0417, 8, function(op::Tanh{}));
  add(0.185, 3, function(op::Sigmoid{}));
  add(0.0338, 17, function(op::Softplus{}));
  add(0.0492, 5, function(op::Sin{}));
  add(0.0504, 6, function(op::Cos{}));
  add(0.0373, 11, function(op::Elu{0.75}));
  add(0.031, 9, function(op::LeakyRelu{0.0078125}));
  add(0.0475, 9, function(op::Abs{}));
  add(0.0554, 9, function(op::Neg{}));
  add(0.0243, 9, function(op::Clip{-0.25, 0.5}));
  add(0.108, 10, [](Graph& graph, ValueId x, const auto& constant) {
    const auto shifted = graph.add_node("shifted", op::Add{}, {constant("c", {10}, 1.0), x});
    const auto scaled = graph.add_node("scaled", op::Mul{}, {constant("d", {1}, 1.0), shifted});
    return graph.add_node("lowered", op::Sub{}, {scaled, constant("e", {10}, 1.0)});
  });
  add(0.0066, 12, [](Graph& graph, ValueId x, const auto&) {
    const auto y = graph.add_node("y", op::Relu{}, {x});
    const auto sum = graph.add_node("sum of two", op::Add{}, {y, x});
    const auto difference = graph.add_node("difference", op::Sub{}, {sum, y});
    return graph.add_node("product", op::Mul{}, {difference, y});
  });
  add(0.0467, 12, [](Graph& graph, ValueId x, const auto&) {
    const auto last = graph.add_node("last", op::Slice{{5}, {12}, {1}, {1}}, {x});
    const auto first = graph.add_node("first", op::Slice{{0}, {5}, {1}, {1}}, {x});
    return graph.add_node("turned", op::Concat{1}, {last, first});
  });
  add(0.0176, 11, [](Graph& graph, ValueId x, const auto& constant) {
    const auto raised = graph.add_node("raised", op::Max{}, {constant("c", {11}, 0.3), x});
    const auto lowered = graph.add_node("lowered", op::Min{}, {raised, constant("d", {1}, 1.0)});
    const auto larger = graph.add_node("larger", op::Max{}, {lowered, x});
    return graph.add_node("smaller", op::Min{}, {larger, raised});
  });
  add(0.0763, 6, [](Graph& graph, ValueId x, const auto& constant) {
    const auto below = graph.add_node("below", op::Sub{}, {constant("c", {6}, 1.0), x});
    const auto shrunk = graph.add_node("shrunk", op::Div{}, {below, constant("d", {1}, 1.0)});
    const auto divisor = graph.add_node("divisor", op::Clip{3.0, 4.0}, {shrunk});
    return graph.add_node("share", op::Div{}, {x, divisor});
  });
  add(0.0262, 10, [](Graph& graph, ValueId x, const auto& constant) {
    return graph.add_node("scaled", op::Gemm{0.375, 1.0, false, true},
                          {x, constant("m", {10, 10}, 0.5), constant("c", {10}, 1.0)});
  });
  add(0.047, 7, [](Graph& graph, ValueId x, const auto& constant) {
    const auto angle = graph.add_node("angle", op::Mul{}, {constant("c", {1}, 5.0), x});
    return graph.add_node("sine of a multiple", op::Sin{}, {angle});
  });
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels())
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(name_of_kernels(kernels));
      CAPTURE(i);
      CHECK_APPROACH("T-115", approach(cases[i].second, sign_points::uniform(60, 3, i), *kernels), cases[i].first);
    }
}

TEST_CASE("the rounding of a point to float32 is most of the bound where nothing else rounds") {
  const Graph graph = implicit::scalar_graph(linear({1.0F, 0.5F, 0.25F}), {}, 0.0);
  const double step = 0x1p-25;  // halfway between numbers of float32 near 1 and below
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels()) {
    std::vector<double> points;
    for (int i = 0; i < 64; ++i)
      for (int c = 0; c < 3; ++c) points.push_back(0.5 + (2 * i + 1) * step * 0.999);
    CHECK_APPROACH("T-115", approach(graph, points, *kernels), 0.247);
  }
}

TEST_CASE("subnormal numbers of float32 are within the bound") {
  const Graph graph = implicit::scalar_graph(linear({0x1p-20F, -0x1.8p-21F, 0x1.4p-22F}), {}, 0.0);
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels()) {
    std::vector<double> points = sign_points::uniform(200, 3, 5);
    for (double& x : points) x *= 0x1p-126;
    CHECK_APPROACH("T-115", approach(graph, points, *kernels, 0x1p-126), 0.569);
  }
}

TEST_CASE("the bundled networks are within the bound in float32 over the box") {
  for (const std::string name : {"siren", "torus_sdf_softplus", "mlp_2_10_10_2", "oscillator_d4_w16"}) {
    CAPTURE(name);
    const Graph graph = implicit::scalar_graph(bundled(name), scalar_of(name), 0.0);
    const auto d = static_cast<std::size_t>(graph.value(graph.inputs[0]).declared.back().extent);
    for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels())
      CHECK(approach(graph, sign_points::uniform(5, d, 1), *kernels) <= 1.0);
  }
}

TEST_CASE("a number that is not finite in float32 leaves no value, even where a rectifier hides it") {
  for (const float huge : {1e38F, -1e38F}) {
    Graph graph;
    const auto x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {1, ""}});
    const auto w = graph.add_constant("w", StoredTensor::from(Tensor<float>({1, 9}, std::vector(9, huge))));
    const auto v = graph.add_constant("v", StoredTensor::from(Tensor<float>({9, 1}, std::vector(9, 1.0F))));
    const auto hidden = graph.add_node("hidden", op::MatMul{}, {x, w});
    const auto larger = graph.add_node("larger", op::Mul{}, {hidden, hidden});
    const auto lower = graph.add_node("lower", op::Mul{}, {larger, hidden});
    const auto rectified = graph.add_node("rectified", op::Relu{}, {lower});
    graph.outputs = {graph.add_node("sum", op::MatMul{}, {rectified, v})};
    for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels()) {
      const auto network = FloatNetwork::of(graph, box_of(1, 1.0), *kernels);
      REQUIRE(network != nullptr);
      const std::vector<float> values = values_of(*network, {1.0, 0.0, -1.0, 0x1p-126});
      CHECK(std::isnan(values[0]));
      CHECK(values[1] == 0.0F);
      CHECK(std::isnan(values[2]));
      CHECK(std::isfinite(values[3]));
    }
  }
}

TEST_CASE("a result that is not finite marks its row, in every kernel in float32 that can make one, and no other row") {
  constexpr float huge = 2.5e38F;
  constexpr std::size_t features = implicit::tile_outputs, marked = 17;
  const std::vector<float> weights(2 * features + implicit::tile_outputs, 1.0F), bias(features, 0.0F);
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels())
    for (const float sign : {1.0F, -1.0F}) {
      CAPTURE(name_of_kernels(kernels));
      std::vector<float> x(2 * features * block_rows, 1e-3F), y(features * block_rows);
      for (std::size_t f = 0; f < 2 * features; ++f) x[f * block_rows + marked] = sign * huge;
      std::vector<float> opposite(x), zero(x);
      for (float& value : opposite) value = -value;
      for (std::size_t f = 0; f < 2 * features; ++f) zero[f * block_rows + marked] = 0.0F;
      const auto check_marks = [&](const char* kernel, const auto& run) {
        CAPTURE(kernel);
        std::vector<float> check(block_rows, 0.0F);
        run(check.data());
        for (std::size_t row = 0; row < block_rows; ++row)
          CHECK((row == marked ? std::isnan(check[row]) : check[row] == 0.0F));
      };
      for (const bool rectified : {false, true})
        check_marks("dense", [&](float* check) {
          kernels->dense.block(weights.data(), bias.data(), x.data(), y.data(), 2, features, rectified, check);
        });
      const auto check_pair = [&](const char* kernel, const auto& both, const std::vector<float>& other) {
        check_marks(kernel, [&](float* check) { both.block(x.data(), other.data(), y.data(), features, check); });
      };
      check_pair("add", kernels->add, x);
      check_pair("subtract", kernels->subtract, opposite);
      check_pair("multiply", kernels->multiply, x);
      check_pair("divide", kernels->divide, zero);
      check_pair("shift", kernels->shift, std::vector<float>(features, sign * huge));
      check_pair("scale", kernels->scale, std::vector<float>(features, 4.0F));
      if (sign > 0.0F) continue;
      check_marks("join", [&](float* check) {
        std::copy_n(x.begin(), y.size(), y.begin());
        kernels->join.block(x.data(), 4.0F, y.data(), features, check);
      });
    }
}

TEST_CASE("what float32 does not hold, or has no steps for, is not evaluated in it") {
  const Box box = box_of(3, 1.0);
  const auto packs = [&](const auto& middle) { return FloatNetwork::of(small_network(4, 1, middle), box) != nullptr; };
  CHECK(packs(function(op::Relu{})));
  CHECK(packs(function(op::LeakyRelu{0.25})));
  CHECK_FALSE(packs(function(op::LeakyRelu{0.1})));
  CHECK_FALSE(packs(function(op::Elu{0.1})));
  CHECK_FALSE(packs(function(op::Clip{0.1, 0.5})));
  CHECK_FALSE(packs(function(op::Exp{})));
  CHECK_FALSE(packs(function(op::Erf{})));
  CHECK_FALSE(packs(function(op::Softmax{})));
  CHECK_FALSE(packs([](Graph& graph, ValueId x, const auto& constant) {
    return graph.add_node("scaled", op::Gemm{1.0, 0.7, false, true},
                          {x, constant("m", {4, 4}, 0.5), constant("c", {4}, 1.0)});
  }));
  for (const double weight : {1.0, 0.1, 1e39, 1e-50})
    for (const bool is_product : {false, true}) {
      const auto graph = small_network(4, 1, [&](Graph& of, ValueId x, const auto&) {
        const auto c =
            of.add_constant("c", StoredTensor::from(Tensor<double>(is_product ? Shape{4, 4} : Shape{4},
                                                                   std::vector<double>(is_product ? 16 : 4, weight))));
        return is_product ? of.add_node("product", op::MatMul{}, {x, c})
                          : of.add_node("sum of both", op::Add{}, {x, c});
      });
      CHECK((FloatNetwork::of(graph, box) != nullptr) == (weight == 1.0));
    }
  const Graph graph = implicit::scalar_graph(linear({1.0F, 2.0F, 3.0F}, ElementType::f64), {}, 0.0);
  CHECK(FloatNetwork::of(graph, box_of(3, 3e38)) != nullptr);
  CHECK(FloatNetwork::of(graph, box_of(3, 4e38)) == nullptr);
}

TEST_CASE("a point outside the box has no value in float32, wherever it lies in the block, and its neighbours have") {
  const Graph graph = implicit::scalar_graph(linear({1.0F, 1.0F, 1.0F}, ElementType::f64), {}, 0.0);
  for (const FloatBlockKernels* kernels : implicit::usable_float_block_kernels()) {
    const auto network = FloatNetwork::of(graph, box_of(3, 1.0), *kernels);
    for (const double beyond : {std::nextafter(1.0, 2.0), -1.5, 1e300, -1e300})
      for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{39}}) {
        std::vector<double> points(3 * 40, 0.25);
        points[3 * at + at % 3] = beyond;
        const std::vector<float> values = values_of(*network, points);
        for (std::size_t row = 0; row < 40; ++row) CHECK(std::isnan(values[row]) == (row == at));
      }
  }
}

TEST_CASE("every sign that float32 decides is that of the oracle: differences, iso values that are no floats" *
          doctest::test_suite("campaign")) {
  struct Case {
    const char* name;
    double iso, recorded;
  };
  for (const Case& one : {Case{"mlp_2_10_10_2", 0.0, 0.0344},
                          {"mlp_2_10_10_2", 0.1, 0.0344},
                          {"siren", 1.0 / 3.0, 9.9e-4},
                          {"oscillator_d2_w16", -1e-3, 0.00188},
                          {"torus_sdf_softplus", 0.1, 3.31e-5}}) {
    CAPTURE(one.name);
    const Graph graph = bundled(one.name);
    const Target target = scalar_of(one.name);
    const Graph scalar = implicit::scalar_graph(graph, target, 0.0);
    const auto d = static_cast<std::size_t>(graph.value(graph.inputs[0]).declared.back().extent);
    const auto stage = FloatStage::of(scalar, one.iso, box_of(d, 1.0));
    REQUIRE(stage != nullptr);
    stage->prepare();
    const Held held = hold(*stage, graph, target, one.iso, sign_points::uniform(one.name[0] == 'm' ? 2000 : 400, d, 3));
    CHECK(held.decided > 300);
    CHECK_APPROACH("T-115", held.largest, one.recorded);
  }
}

TEST_CASE("the rounding of the difference from an iso value is part of the bound") {
  // Without it the bound would be near 2^-78; the difference from 1/3 is rounded at 2^-55.
  const Graph graph = linear({1.0F});
  const Graph scalar = implicit::scalar_graph(graph, {}, 0.0);
  const double iso = 1.0 / 3.0;
  const auto stage = FloatStage::of(scalar, iso, box_of(1, 0x1p-54));
  stage->prepare();
  std::vector<double> points = sign_points::uniform(500, 1, 3);
  for (double& x : points) x *= 0x1p-54;
  const Held held = hold(*stage, graph, {}, iso, points);
  CHECK(held.decided == 500);
  CHECK_APPROACH("T-115", held.largest, 0.374);
}

TEST_CASE("the rounding of a point to float32 is part of the bound where no other rounding hides it") {
  // x - 1 is exact for numbers x of float32 near 1.
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {1, ""}});
  const auto one = graph.add_constant("one", StoredTensor::from(Tensor<float>({1}, {1.0F})));
  graph.outputs = {graph.add_node("difference", op::Sub{}, {x, one})};
  const Graph scalar = implicit::scalar_graph(graph, {}, 0.0);
  const auto stage = FloatStage::of(scalar, 0.0, Box{{1.0 - 0x1p-10}, {1.0 - 0x1p-12}});
  REQUIRE(stage != nullptr);
  stage->prepare();
  std::vector<double> points = sign_points::uniform(2000, 1, 7);
  for (double& at : points) at = 1.0 - 0x1p-12 - 0x1.8p-12 * (1.0 + at);
  const Held held = hold(*stage, graph, {}, 0.0, points);
  CHECK(held.decided > 1900);
  CHECK_APPROACH("T-115", held.largest, 0.99);
}

TEST_CASE("points near a plane are decided by float32 only where its rounding of them leaves no doubt") {
  // x + y + z at points that float32 would see on the other side.
  const Graph graph = linear({1.0F, 1.0F, 1.0F});
  const Graph scalar = implicit::scalar_graph(graph, {}, 0.0);
  const auto stage = FloatStage::of(scalar, 0.0, box_of(3, 1.0));
  stage->prepare();
  std::vector<double> points = sign_points::uniform(4000, 3, 9);
  for (std::size_t row = 0; row < 4000; ++row)
    if (row >= 3000)
      points[3 * row + 2] = -points[3 * row] - points[3 * row + 1] + std::ldexp(points[3 * row + 2], -22);
  for (double& x : points) x = std::clamp(x, -1.0, 1.0);
  const Held held = hold(*stage, graph, {}, 0.0, points);
  CHECK(held.decided > 2900);
  CHECK_APPROACH("T-115", held.largest, 0.452);
}

TEST_CASE("float32 is left where the first points show that it does not pay, and for few points") {
  const Graph graph = bundled("sphere_cut_sdf_relu");
  const Graph scalar = implicit::scalar_graph(graph, {}, 0.0);
  const auto stage = FloatStage::of(scalar, 0.0, box_of(3, 1.0));
  stage->prepare();
  const SignField field(graph);
  const std::vector<double> uniform = sign_points::uniform(1000, 3, 1);
  const std::vector<double> near = sign_points::band(sign_points::bisected(field, 1000, 2), 1e-4, 3);
  std::vector<PointSign> signs(1000);
  CHECK(stage->decide(uniform, signs) > 950);
  CHECK(stage->decide(near, std::span(signs).first(near.size() / 3)) == 0);
  CHECK(stage->decide(std::span(uniform).first(300), std::span(signs).first(100)) == 0);
}

TEST_CASE(
    "a prepared field decides by float32 and float64 without memory, with the same counts by any number of threads") {
  for (const std::string name : {"sphere_cut_sdf_relu", "oscillator_d4_w16"}) {
    CAPTURE(name);
    const SignField field(bundled(name), scalar_of(name));
    field.prepare();
    const std::size_t d = field.dimension();
    const std::vector<double> points = sign_points::uniform(20000, d, 3);
    std::vector<PointSign> signs(20000), again(20000);
    const auto decide = [&](const SignField& by, std::vector<PointSign>& out) {
      return by.signs(points.data(), 20000, static_cast<std::ptrdiff_t>(d), 1, out);
    };
    const auto decided = [](const SignStatistics& counts, SignStage stage) {
      return counts.stages[static_cast<std::size_t>(stage)].decided;
    };
    const SignStatistics counts = decide(field, signs);
    const std::int64_t in_float32 = decided(counts, SignStage::float32_domain);
    CHECK(in_float32 > 18000);
    CHECK(in_float32 < 20000);
    CHECK(in_float32 + decided(counts, SignStage::float64_domain) == 20000);
    const std::size_t before = allocations();
    decide(field, again);
    CHECK(allocations() == before);
    SignOptions options;
    options.threads = 3;
    const SignField threaded(bundled(name), scalar_of(name), options);
    threaded.prepare();
    CHECK(decided(decide(threaded, again), SignStage::float32_domain) == in_float32);
    for (std::size_t row = 0; row < 20000; ++row) {
      CHECK(again[row].sign == signs[row].sign);
      CHECK(again[row].stage == signs[row].stage);
    }
  }
}

TEST_CASE("the bound in float32 is found when enough points ask for it, and signs stay what they were") {
  const SignField field(bundled("sphere_cut_sdf_relu"));
  const std::vector<double> points = sign_points::uniform(20000, 3, 4);
  const std::vector<PointSign> first = sign_points::signs_of(field, points);
  CHECK(std::none_of(first.begin(), first.end(), [](const auto& s) { return s.stage == SignStage::float32_domain; }));
  for (int call = 0; call < 3; ++call) sign_points::signs_of(field, points);
  const std::vector<PointSign> last = sign_points::signs_of(field, points);
  CHECK(std::any_of(last.begin(), last.end(), [](const auto& s) { return s.stage == SignStage::float32_domain; }));
  for (std::size_t row = 0; row < first.size(); ++row) CHECK(first[row].sign == last[row].sign);
}
