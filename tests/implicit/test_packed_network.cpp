#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "implicit/kernels/block_functions.hpp"
#include "implicit/packed_network.hpp"
#include "implicit/scalar_graph.hpp"
#include "implicit_networks.hpp"
#include "step_networks.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;
using implicit::block_rows;
using implicit::BlockKernels;
using implicit::PackedNetwork;
using implicit::tile_outputs;
using step_networks::function;
using step_networks::small_network;

namespace {

std::vector<double> values_of(const PackedNetwork& network, const std::vector<double>& points) {
  std::vector<double> values(points.size() / network.dimension());
  const auto workspace = network.workspace();
  for (std::size_t first = 0; first < values.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, values.size() - first);
    network.evaluate(std::span(points).subspan(first * network.dimension(), count * network.dimension()), *workspace,
                     std::span(values).subspan(first, count));
  }
  return values;
}

/// Each alone has the bits that it has among others.
void check_points_alone(const PackedNetwork& network, const std::vector<double>& points) {
  const std::vector<double> values = values_of(network, points);
  for (std::size_t row = 0; row < values.size(); ++row) {
    const double alone = network.evaluate(std::span(points).subspan(row * network.dimension(), network.dimension()));
    CHECK(std::memcmp(&alone, &values[row], sizeof alone) == 0);
  }
}

Box unit_box(std::size_t dimension) {
  return {std::vector<double>(dimension, -1.0), std::vector<double>(dimension, 1.0)};
}

/// The largest error / bound of the network over the box.
double approach(const Graph& graph, const std::vector<double>& points, const BlockKernels& kernels) {
  const auto network = PackedNetwork::of(graph, kernels);
  REQUIRE(network != nullptr);
  const double bound =
      forward_error_bound(graph, PackedNetwork::arithmetic(), unit_box(network->dimension())).error.value();
  REQUIRE(std::isfinite(bound));
  const std::vector<double> values = values_of(*network, points);
  double largest = 0.0;
  for (std::size_t row = 0; row < values.size(); ++row) {
    const auto exact = exact_scalar<oracle::Real400>(
        graph, {}, 0.0, std::span(points).subspan(row * network->dimension(), network->dimension()));
    const oracle::Real400 error = oracle::magnitude(exact - oracle::Real400(values[row]));
    largest =
        std::fmax(largest, bound == 0.0 && error == 0 ? 0.0 : (error / oracle::Real400(bound)).convert_to<double>());
  }
  return largest;
}

std::string name_of_kernels(const BlockKernels* kernels) {
  return kernels->name;
}

}  // namespace

TEST_CASE("functions of blocks, also fused, are within their bounds of MPFR, and approach them as far as they did") {
  struct Case {
    const char* theorem;
    BlockKernels::Function BlockKernels::*f;
    int (*exact)(mpfr_t, mpfr_srcptr, mpfr_rnd_t);
    double units, absolute_units, range, recorded;
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
  const Case cases[] = {{OF_THEOREM("T-80"), &BlockKernels::exp, mpfr_exp, 2.0, 0.0, 30.0, 0.59},
                        {OF_THEOREM("T-80"), &BlockKernels::expm1, mpfr_expm1, 8.0, 0.0, 30.0, 0.23},
                        {OF_THEOREM("T-80"), &BlockKernels::sigmoid, sigmoid, 4.0, 0.0, 30.0, 0.55},
                        {OF_THEOREM("T-80"), &BlockKernels::softplus, softplus, 9.0, 0.0, 30.0, 0.34},
                        {OF_THEOREM("T-113"), &BlockKernels::tanh, mpfr_tanh, 0.0, 8.0, 10.0, 0.36},
                        {OF_THEOREM("T-113"), &BlockKernels::sin, mpfr_sin, 0.0, 8.0, 100.0, 0.38},
                        {OF_THEOREM("T-113"), &BlockKernels::cos, mpfr_cos, 0.0, 8.0, 100.0, 0.42},
                        {OF_THEOREM("T-113"), &BlockKernels::sin, mpfr_sin, 0.0, 8.0, 0x1p20, 0.31},
                        {OF_THEOREM("T-113"), &BlockKernels::cos, mpfr_cos, 0.0, 8.0, 0x1p20, 0.42}};
  constexpr double w = 0x1p-53;
  constexpr std::size_t n = 100 * block_rows;
  for (const BlockKernels* kernels : implicit::usable_block_kernels())
    for (const Case& one : cases) {
      CAPTURE(name_of_kernels(kernels));
      CAPTURE(one.range);
      std::mt19937_64 generator(7);
      std::vector<double> x(n), y(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double size = i % 3 == 0 ? one.range : std::ldexp(1.0, -static_cast<int>(generator() % 40));
        x[i] = std::uniform_real_distribution<double>(-size, size)(generator);
        if (i % 16 == 0) x[i] = std::nextafter(std::round(x[i]) * (M_PI / 2.0) * std::fmin(1.0, 0x1p19 / size), 0.0);
      }
      REQUIRE((kernels->*one.f)(x.data(), y.data(), n));
      double largest = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        const Real exact = Real(x[i]).apply(one.exact);
        const double error = abs(Real(y[i]) - exact).to_double(), size = abs(exact).to_double();
        largest = std::fmax(largest, error / (one.units * w * size + one.absolute_units * w));
      }
      CHECK_APPROACH(one.theorem, largest, one.recorded);
      x[5] = std::nan("");
      const bool is_known = (kernels->*one.f)(x.data(), y.data(), n);
      CHECK((!is_known || std::isnan(y[5])));
    }
}

TEST_CASE("what polynomials of blocks interpolate they meet at the nodes") {
  using Constants = implicit::Constants<double>;
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
  CHECK_APPROACH("T-113", misses(Constants::exp2, -0.5, 0.5, power) / (0.2 * 0x1p-53), 0.86);
  CHECK_APPROACH("T-113", misses(Constants::sine, 0.0, 2.4675, sine) / (0.2 * 0x1p-53), 0.89);
}

TEST_CASE("tanh of blocks saturates, and their sine refuses angles beyond its range") {
  for (const BlockKernels* kernels : implicit::usable_block_kernels()) {
    CAPTURE(name_of_kernels(kernels));
    const double large[] = {20.0, 25.0, 1e300, HUGE_VAL, -20.0, -1e300, -HUGE_VAL, 0.0};
    double y[8];
    REQUIRE(kernels->tanh(large, y, 8));
    for (const double one : {y[0], y[1], y[2], y[3], -y[4], -y[5], -y[6]}) CHECK(1.0 - one <= 0x1p-52);
    CHECK(std::fabs(y[7]) <= 8 * 0x1p-53);
    for (const auto f : {kernels->sin, kernels->cos}) {
      std::vector<double> angles(block_rows, 0x1p20);
      CHECK(f(angles.data(), angles.data(), block_rows));
      for (const double beyond : {std::nextafter(0x1p20, 0x1p21), -0x1p21, HUGE_VAL})
        for (const std::size_t at : {std::size_t{0}, block_rows - 1}) {
          std::vector<double> x(block_rows, 1.0);
          x[at] = beyond;
          CHECK_FALSE(f(x.data(), x.data(), block_rows));
        }
      std::vector<double> hidden(block_rows, 1.0);  // NaN, and numbers again, behind it in every lane
      hidden[0] = 0x1p30;
      std::fill(hidden.begin() + 1, hidden.begin() + 17, std::numeric_limits<double>::quiet_NaN());
      CHECK_FALSE(f(hidden.data(), hidden.data(), block_rows));
    }
    for (const auto& [f, of_multiple] :
         {std::pair(kernels->sin, kernels->sin_of_multiple), {kernels->cos, kernels->cos_of_multiple}}) {
      std::vector<double> x(block_rows), product(block_rows), multiple(block_rows);
      for (std::size_t i = 0; i < block_rows; ++i) x[i] = 0x1p20 / 30.0 / static_cast<double>(i + 1);
      for (std::size_t i = 0; i < block_rows; ++i) product[i] = x[i] * 30.0;
      CHECK(f(product.data(), product.data(), block_rows));
      CHECK(of_multiple(x.data(), 30.0, multiple.data(), block_rows));
      CHECK(multiple == product);
      CHECK_FALSE(of_multiple(x.data(), 31.0, multiple.data(), block_rows));
    }
  }
}

TEST_CASE("networks of rectifiers have the bits of the evaluator that adds up in the same order") {
  for (const std::string& name : bundled_names()) {
    const Graph graph = implicit::scalar_graph(bundled(name), scalar_of(name), 0.0);
    if (!is_piecewise_linear(bundled(name))) continue;
    CAPTURE(name);
    for (const BlockKernels* kernels : implicit::usable_block_kernels()) {
      const bool fused = kernels->fuses;
      const auto network = PackedNetwork::of(graph, *kernels);
      REQUIRE(network != nullptr);
      const std::vector<double> points = sign_points::uniform(70, 3, 11);
      const Inputs inputs{{{"x", StoredTensor::from(Tensor<double>({70, 3}, points))}}};
      const Trace trace =
          cpu_evaluator(cpu_arithmetic("fp64", {SummationOrder::Kind::sequential, 0, fused})).run(graph, inputs);
      CHECK(values_of(*network, points) == trace.layers.back().output.to_double().values);
      check_points_alone(*network, points);
    }
  }
}

TEST_CASE("every step is within the bound over the box, by every build, and approaches it as far as it did") {
  std::vector<std::pair<double, Graph>> cases;
  const auto add = [&](double recorded, std::int64_t width, const auto& middle) {
    cases.emplace_back(recorded, small_network(width, 100 + cases.size(), middle));
  };
  add(0.021, 13, function(op::Relu{}));
  add(0.037, 8, function(op::Tanh{}));
  add(0.122, 3, function(op::Sigmoid{}));
  add(0.0117, 17, function(op::Softplus{}));
  add(0.059, 5, function(op::Sin{}));
  add(0.046, 6, function(op::Cos{}));
  add(0.091, 2, function(op::Exp{}));
  add(0.016, 11, function(op::Elu{0.75}));
  add(0.0258, 9, function(op::LeakyRelu{0.01}));
  add(0.091, 10, [](Graph& graph, ValueId x, const auto& constant) {
    const auto shifted = graph.add_node("shifted", op::Add{}, {constant("c", {10}, 1.0), x});
    const auto scaled = graph.add_node("scaled", op::Mul{}, {constant("d", {1}, 1.0), shifted});
    return graph.add_node("lowered", op::Sub{}, {scaled, constant("e", {10}, 1.0)});
  });
  add(0.0037, 12, [](Graph& graph, ValueId x, const auto&) {
    const auto y = graph.add_node("y", op::Relu{}, {x});
    const auto sum = graph.add_node("sum of two", op::Add{}, {y, x});
    const auto difference = graph.add_node("difference", op::Sub{}, {sum, y});
    return graph.add_node("product", op::Mul{}, {difference, y});
  });
  add(0.06, 12, [](Graph& graph, ValueId x, const auto&) {
    const auto last = graph.add_node("last", op::Slice{{5}, {12}, {1}, {1}}, {x});
    const auto first = graph.add_node("first", op::Slice{{0}, {5}, {1}, {1}}, {x});
    return graph.add_node("turned", op::Concat{1}, {last, first});
  });
  add(0.0259, 7, function(op::Erf{}));
  add(0.0201, 7, function(op::Gelu{}));
  add(0.0125, 7, function(op::Gelu{true}));
  add(0.05, 9, function(op::Abs{}));
  add(0.05, 9, function(op::Neg{}));
  add(0.0276, 9, function(op::Clip{-0.25, 0.5}));
  add(0.05, 9, function(op::Clip{-0.25}));
  add(0.0138, 5, function(op::Mish{}));
  add(0.05, 5, function(op::HardSwish{}));
  add(0.0375, 11, [](Graph& graph, ValueId x, const auto& constant) {
    const auto raised = graph.add_node("raised", op::Max{}, {constant("c", {11}, 0.3), x});
    const auto lowered = graph.add_node("lowered", op::Min{}, {raised, constant("d", {1}, 1.0)});
    const auto larger = graph.add_node("larger", op::Max{}, {lowered, x});
    return graph.add_node("smaller", op::Min{}, {larger, raised});
  });
  add(0.05, 6, [](Graph& graph, ValueId x, const auto& constant) {
    const auto below = graph.add_node("below", op::Sub{}, {constant("c", {6}, 1.0), x});
    const auto shrunk = graph.add_node("shrunk", op::Div{}, {below, constant("d", {1}, 1.0)});
    const auto divisor = graph.add_node("divisor", op::Clip{3.0, 4.0}, {shrunk});
    return graph.add_node("share", op::Div{}, {x, divisor});
  });
  for (const auto& [alpha, recorded] : {std::pair(0.3, 0.0274), {-2.0, 0.0129}})
    add(recorded, 10, [alpha = alpha](Graph& graph, ValueId x, const auto& constant) {
      return graph.add_node("scaled", op::Gemm{alpha, 0.7, false, true},
                            {x, constant("m", {10, 10}, 0.5), constant("c", {10}, 1.0)});
    });
  add(0.0082, 10, [](Graph& graph, ValueId x, const auto& constant) {
    const auto turned = graph.add_node("turned", op::Transpose{{1, 0}}, {constant("m", {10, 10}, 0.5)});
    const auto halved = graph.add_node("halved", op::Mul{}, {turned, constant("c", {1}, 1.0)});
    const auto unscaled =
        graph.add_node("unscaled", op::Gemm{1.0, -0.3, false, false}, {x, halved, constant("d", {10}, 1.0)});
    return graph.add_node("rectified", op::Relu{}, {unscaled});
  });
  add(0.05, 7, [](Graph& graph, ValueId x, const auto& constant) {
    const auto angle = graph.add_node("angle", op::Mul{}, {constant("c", {1}, 5.0), x});
    return graph.add_node("sine of a multiple", op::Sin{}, {angle});
  });
  add(0.044, 7, [](Graph& graph, ValueId x, const auto& constant) {
    const auto angle = graph.add_node("angle", op::Mul{}, {x, constant("c", {1}, 5.0)});
    const auto cosine = graph.add_node("cosine of a multiple", op::Cos{}, {angle});
    const auto turned = graph.add_node("turned", op::Mul{}, {cosine, constant("d", {1}, 5.0)});
    const auto sine = graph.add_node("sine", op::Sin{}, {turned});
    const auto scaled = graph.add_node("scaled", op::Mul{}, {sine, constant("e", {7}, 1.0)});
    const auto last = graph.add_node("last", op::Cos{}, {scaled});
    return graph.add_node("sum of two", op::Add{}, {last, turned});
  });
  for (const BlockKernels* kernels : implicit::usable_block_kernels())
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(name_of_kernels(kernels));
      CAPTURE(i);
      check_points_alone(*PackedNetwork::of(cases[i].second, *kernels), sign_points::uniform(60, 3, i));
      const double largest = approach(cases[i].second, sign_points::uniform(60, 3, i), *kernels);
      CHECK_APPROACH("T-111", largest, cases[i].first);
    }
}

TEST_CASE("the bundled networks are packed, and within the bound over the box") {
  for (const std::string name : {"siren", "torus_sdf_softplus", "mlp_2_10_10_2", "oscillator_d4_w16"}) {
    CAPTURE(name);
    const Graph graph = implicit::scalar_graph(bundled(name), scalar_of(name), 0.125);
    CHECK(approach(graph, sign_points::uniform(5, graph.value(graph.inputs[0]).declared.back().extent == 2 ? 2 : 3, 1),
                   implicit::fastest_block_kernels()) <= 1.0);
  }
}

TEST_CASE("a number that is not finite on the way leaves no value, even where a rectifier hides it") {
  for (const double huge : {1e300, -1e300}) {
    Graph graph;
    const auto x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {1, ""}});
    const auto w = graph.add_constant("w", StoredTensor::from(Tensor<double>({1, 9}, std::vector(9, huge))));
    const auto v = graph.add_constant("v", StoredTensor::from(Tensor<double>({9, 1}, std::vector(9, 1.0))));
    const auto hidden = graph.add_node("hidden", op::MatMul{}, {x, w});
    const auto larger = graph.add_node("larger", op::Mul{}, {hidden, hidden});
    const auto lower = graph.add_node("lower", op::Mul{}, {larger, hidden});
    const auto rectified = graph.add_node("rectified", op::Relu{}, {lower});
    graph.outputs = {graph.add_node("sum", op::MatMul{}, {rectified, v})};
    for (const BlockKernels* kernels : implicit::usable_block_kernels()) {
      const auto network = PackedNetwork::of(graph, *kernels);
      REQUIRE(network != nullptr);
      const std::vector<double> values = values_of(*network, {1.0, 0.0, -1.0, 0x1p-1000});
      CHECK(std::isnan(values[0]));
      CHECK(values[1] == 0.0);
      CHECK(std::isnan(values[2]));
      CHECK(std::isfinite(values[3]));
      for (const double point : {1.0, -1.0}) CHECK(std::isnan(network->evaluate({&point, 1})));
    }
  }
}

TEST_CASE("a result that is not finite marks its row, in every kernel that can make one, and no other row") {
  constexpr double huge = 1.5e308;
  constexpr std::size_t features = tile_outputs, marked = 17;
  const std::vector<double> weights(2 * features + tile_outputs, 1.0), bias(features, 0.0);
  for (const BlockKernels* kernels : implicit::usable_block_kernels())
    for (const double sign : {1.0, -1.0}) {
      CAPTURE(name_of_kernels(kernels));
      std::vector<double> x(2 * features * block_rows, 1e-3), y(features * block_rows);
      for (std::size_t f = 0; f < 2 * features; ++f) x[f * block_rows + marked] = sign * huge;
      std::vector<double> opposite(x);
      for (double& value : opposite) value = -value;
      const auto check_marks = [&](const char* kernel, const auto& run) {
        CAPTURE(kernel);
        std::vector<double> check(block_rows, 0.0);
        run(check.data());
        for (std::size_t row = 0; row < block_rows; ++row)
          CHECK((row == marked ? std::isnan(check[row]) : check[row] == 0.0));
      };
      for (const bool rectified : {false, true})
        check_marks("dense", [&](double* check) {
          kernels->dense.block(weights.data(), bias.data(), x.data(), y.data(), 2, features, rectified, check);
        });
      check_marks("add", [&](double* check) { kernels->add.block(x.data(), x.data(), y.data(), features, check); });
      check_marks("subtract", [&](double* check) {
        kernels->subtract.block(x.data(), opposite.data(), y.data(), features, check);
      });
      check_marks("multiply",
                  [&](double* check) { kernels->multiply.block(x.data(), x.data(), y.data(), features, check); });
      const std::vector<double> shifts(features, sign * huge);
      check_marks("shift",
                  [&](double* check) { kernels->shift.block(x.data(), shifts.data(), y.data(), features, check); });
      const std::vector<double> factors(features, 4.0);
      check_marks("scale",
                  [&](double* check) { kernels->scale.block(x.data(), factors.data(), y.data(), features, check); });
      const double alone[] = {sign * huge, sign * huge}, other[] = {-sign * huge, -sign * huge};
      const auto check_mark_alone = [&](const char* kernel, const auto& run) {
        CAPTURE(kernel);
        double check = 0.0;
        run(&check);
        CHECK(std::isnan(check));
      };
      for (const bool rectified : {false, true})
        for (const std::size_t outputs : {std::size_t{1}, std::size_t{4}, features})
          check_mark_alone("dense", [&](double* check) {
            kernels->dense.point(weights.data(), bias.data(), alone, y.data(), 2, outputs, rectified, check);
          });
      check_mark_alone("add", [&](double* check) { kernels->add.point(alone, alone, y.data(), 2, check); });
      check_mark_alone("subtract", [&](double* check) { kernels->subtract.point(alone, other, y.data(), 2, check); });
      check_mark_alone("multiply", [&](double* check) { kernels->multiply.point(alone, alone, y.data(), 2, check); });
      check_mark_alone("shift", [&](double* check) { kernels->shift.point(alone, alone, y.data(), 2, check); });
      check_mark_alone("scale", [&](double* check) { kernels->scale.point(alone, alone, y.data(), 2, check); });
      if (sign > 0.0) continue;
      check_mark_alone("join", [&](double* check) {
        std::copy_n(alone, 2, y.begin());
        kernels->join.point(alone, 4.0, y.data(), 2, check);
      });
      check_marks("join", [&](double* check) {
        std::copy_n(x.begin(), y.size(), y.begin());
        kernels->join.block(x.data(), 4.0, y.data(), features, check);
      });
    }
}

TEST_CASE("what is no network of these steps is not packed") {
  const auto packs = [](const auto& middle) { return PackedNetwork::of(small_network(4, 1, middle)) != nullptr; };
  CHECK(packs(function(op::Relu{})));
  CHECK_FALSE(packs(function(op::Softmax{})));
  CHECK_FALSE(packs(function(op::Floor{})));
  CHECK_FALSE(packs([](Graph& graph, ValueId x, const auto& constant) {
    return graph.add_node("a constant over it", op::Div{}, {constant("c", {4}, 1.0), x});
  }));
}
