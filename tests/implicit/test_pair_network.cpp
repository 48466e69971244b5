#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "bounds/boxes/pair_box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/directed.hpp"
#include "faults/theorems.hpp"
#include "implicit/pair_network.hpp"
#include "implicit/pair_stage.hpp"
#include "implicit/scalar_graph.hpp"
#include "implicit_networks.hpp"
#include "step_networks.hpp"
#include "support/approach.hpp"
#include "support/mpfr_network.hpp"
#include "support/pair_checks.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;
using implicit::pair_outputs;
using implicit::pair_rows;
using implicit::PairBlockKernels;
using implicit::PairNetwork;
using implicit::PairStage;
using step_networks::function;
using step_networks::small_network;

namespace {

struct PairValues {
  std::vector<double> high, low;
};

PairValues values_of(const PairNetwork& program, const std::vector<double>& points) {
  const std::size_t rows = points.size() / program.dimension();
  PairValues values{std::vector<double>(rows), std::vector<double>(rows)};
  const auto workspace = program.workspace();
  for (std::size_t first = 0; first < rows; first += pair_rows) {
    const std::size_t count = std::min(pair_rows, rows - first);
    program.evaluate(std::span(points).subspan(first * program.dimension(), count * program.dimension()), *workspace,
                     std::span(values.high).subspan(first, count), std::span(values.low).subspan(first, count));
  }
  return values;
}

Box unit_box(std::size_t dimension) {
  return {std::vector<double>(dimension, -1.0), std::vector<double>(dimension, 1.0)};
}

/// The largest error / bound at the points: of the box, or of the points as boxes.
double approach(const Graph& graph, const std::vector<double>& points, const PairBlockKernels& kernels, bool in_box) {
  const auto program = PairNetwork::of(graph, kernels);
  REQUIRE(program != nullptr);
  const std::size_t d = program->dimension();
  const double of_box = bounds::pair_error_bound(graph, unit_box(d)).value();
  REQUIRE(std::isfinite(of_box));
  CHECK(of_box < 1e-22);
  const PairValues values = values_of(*program, points);
  double largest = 0.0;
  for (std::size_t row = 0; row < values.high.size(); ++row) {
    const std::vector<double> point(points.begin() + static_cast<std::ptrdiff_t>(row * d),
                                    points.begin() + static_cast<std::ptrdiff_t>(row * d + d));
    const double bound = in_box ? of_box : bounds::pair_error_bound(graph, {point, point}).value();
    const oracle::Real400 error =
        oracle::magnitude(exact_scalar<oracle::Real400>(graph, {}, 0.0, point) - oracle::Real400(values.high[row]) -
                          oracle::Real400(values.low[row]));
    largest = std::fmax(largest, (error / oracle::Real400(bound)).convert_to<double>());
  }
  return largest;
}

std::vector<std::pair<double, Graph>> step_cases() {
  std::vector<std::pair<double, Graph>> cases;
  const auto add = [&](double recorded, std::int64_t width, const auto& middle) {
    cases.emplace_back(recorded, small_network(width, 100 + cases.size(), middle));
  };
  add(0.0032, 13, function(op::Relu{}));
  add(0.0125, 8, function(op::Tanh{}));
  add(0.0156, 3, function(op::Sigmoid{}));
  add(0.0071, 17, function(op::Softplus{}));
  add(0.0141, 5, function(op::Sin{}));
  add(0.0111, 6, function(op::Cos{}));
  add(0.0108, 2, function(op::Exp{}));
  add(0.0056, 11, function(op::Elu{0.75}));
  add(0.0127, 9, function(op::LeakyRelu{0.01}));
  add(0.0069, 7, function(op::Erf{}));
  add(0.0078, 9, function(op::Abs{}));
  add(0.0, 9, function(op::Neg{}));
  add(0.0034, 9, function(op::Clip{-0.25, 0.5}));
  add(0.0124, 10, [](Graph& graph, ValueId x, const auto& constant) {
    const auto shifted = graph.add_node("shifted", op::Add{}, {constant("c", {10}, 1.0), x});
    const auto scaled = graph.add_node("scaled", op::Mul{}, {constant("d", {1}, 1.0), shifted});
    return graph.add_node("lowered", op::Sub{}, {scaled, constant("e", {10}, 1.0)});
  });
  add(0.0137, 12, [](Graph& graph, ValueId x, const auto&) {
    const auto y = graph.add_node("y", op::Relu{}, {x});
    const auto sum = graph.add_node("sum of two", op::Add{}, {y, x});
    const auto difference = graph.add_node("difference", op::Sub{}, {sum, y});
    return graph.add_node("product", op::Mul{}, {difference, y});
  });
  add(0.0061, 12, [](Graph& graph, ValueId x, const auto&) {
    const auto last = graph.add_node("last", op::Slice{{5}, {12}, {1}, {1}}, {x});
    const auto first = graph.add_node("first", op::Slice{{0}, {5}, {1}, {1}}, {x});
    return graph.add_node("turned", op::Concat{1}, {last, first});
  });
  add(0.0015, 11, [](Graph& graph, ValueId x, const auto& constant) {
    const auto raised = graph.add_node("raised", op::Max{}, {constant("c", {11}, 0.3), x});
    const auto lowered = graph.add_node("lowered", op::Min{}, {raised, constant("d", {1}, 1.0)});
    const auto larger = graph.add_node("larger", op::Max{}, {lowered, x});
    return graph.add_node("smaller", op::Min{}, {larger, raised});
  });
  add(0.0104, 6, [](Graph& graph, ValueId x, const auto& constant) {
    const auto below = graph.add_node("below", op::Sub{}, {constant("c", {6}, 1.0), x});
    const auto shrunk = graph.add_node("shrunk", op::Div{}, {below, constant("d", {1}, 1.0)});
    const auto bounded = graph.add_node("bounded", op::Sigmoid{}, {shrunk});
    const auto divisor = graph.add_node("divisor", op::Add{}, {bounded, constant("e", {1}, 9.0)});
    return graph.add_node("share", op::Div{}, {x, divisor});
  });
  for (const auto& [alpha, recorded] : {std::pair(0.3, 0.0015), {-2.0, 0.0034}})
    add(recorded, 10, [alpha = alpha](Graph& graph, ValueId x, const auto& constant) {
      return graph.add_node("scaled", op::Gemm{alpha, 1.0, false, true},
                            {x, constant("m", {10, 10}, 0.5), constant("c", {10}, 1.0)});
    });
  return cases;
}

}  // namespace

TEST_CASE("ops in double-double lose no more than their theorems say, and as much of it as they did, in every build" *
          doctest::test_suite("campaign")) {
  using F = num::DoubleDoubleFunction;
  for (const PairBlockKernels* kernels : implicit::usable_pair_block_kernels()) {
    std::mt19937_64 engine(114);
    double few = 0.0, many = 0.0, operations[6] = {}, tanh = 0.0, sin = 0.0;
    for (int i = 0; i < 2000; ++i) {
      few = std::fmax(few, checks::dense_share(*kernels, i % 2 == 0 ? 1 : 2, 2, engine));
      for (std::size_t operation = 0; operation < 6; ++operation)
        for (const bool constants : {false, true})
          operations[operation] =
              std::fmax(operations[operation], checks::operation_share(*kernels, operation, constants, engine));
      tanh = std::fmax(tanh, checks::function_share(F::tanh, mpfr_tanh, engine));
      sin = std::fmax(sin, checks::function_share(F::sin, mpfr_sin, engine));
    }
    for (int i = 0; i < 200; ++i) many = std::fmax(many, checks::dense_share(*kernels, 33, i % 40, engine));
    CHECK_APPROACH("T-114", few, 0.124);
    CHECK_APPROACH("T-114", many, 0.0429);
    CHECK_APPROACH("T-114", operations[0], 0.666);
    CHECK_APPROACH("T-114", operations[1], 0.666);
    CHECK_APPROACH("T-114", operations[2], 0.642);
    CHECK_APPROACH("T-114", operations[3], 0.733);
    CHECK_EXACT("T-114", operations[4] == 0.0);
    CHECK_EXACT("T-114", operations[5] == 0.0);
    CHECK_APPROACH("T-114", tanh, 0.187);
    CHECK_APPROACH("T-114", sin, 0.135);
  }
}

TEST_CASE("every fault in the theorems of double-double is caught, by a check that passes without it") {
  using F = num::DoubleDoubleFunction;
  struct Fault {
    void (*inject)(checks::Theorems&);
    double (*share)(std::mt19937_64&);
  };
  static const PairBlockKernels& kernels = implicit::fastest_pair_block_kernels();
  const Fault faults[] = {
      {[](checks::Theorems& r) {
         r.pair_sum_error = [](Magnitude a, Magnitude b) { return Magnitude(0.3) * proven::pair_sum_error(a, b); };
       },
       [](auto& engine) { return checks::operation_share(kernels, 0, false, engine); }},
      {[](checks::Theorems& r) {
         r.pair_product_error = [](Magnitude y) { return Magnitude(0.3) * proven::pair_product_error(y); };
       },
       [](auto& engine) { return checks::operation_share(kernels, 2, false, engine); }},
      {[](checks::Theorems& r) {
         r.pair_quotient_error = [](Magnitude y) { return Magnitude(0.3) * proven::pair_quotient_error(y); };
       },
       [](auto& engine) { return checks::operation_share(kernels, 3, false, engine); }},
      {[](checks::Theorems& r) {
         r.pair_function_error = [](F f, Magnitude y) { return Magnitude(0.05) * proven::pair_function_error(f, y); };
       },
       [](auto& engine) { return checks::function_share(F::tanh, mpfr_tanh, engine); }},
      {[](checks::Theorems& r) {
         r.pair_dense_error = [](std::int64_t k, Magnitude terms, Magnitude factor) {
           return Magnitude(0.02) * proven::pair_dense_error(k, terms, factor);
         };
       },
       [](auto& engine) { return checks::dense_share(kernels, 1, 2, engine); }}};
  std::vector<checks::Theorems> faulty;
  for (const Fault& fault : faults) {
    const auto largest = [&] {
      std::mt19937_64 engine(5);
      double share = 0.0;
      for (int i = 0; i < 500; ++i) share = std::fmax(share, fault.share(engine));
      return share;
    };
    CHECK(largest() <= 1.0);
    faulty.push_back(checks::with_fault(fault.inject));
    const checks::ScopedTheorems in_force(faulty.back());
    CHECK(largest() > 1.0);
  }
  CHECK(checks::same_in_all_of_double_double(faulty) == std::vector<std::string>());
}

TEST_CASE("every step is within the bound in double-double over the box, and approaches it at single points") {
  const auto cases = step_cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const double recorded = cases[i].first;
    const Graph& graph = cases[i].second;
    const std::vector<double> points = sign_points::uniform(40, 3, i);
    const PairBlockKernels& kernels = implicit::fastest_pair_block_kernels();
    CHECK(approach(graph, points, kernels, true) <= 1.0);
    const double largest = approach(graph, points, kernels, false);
    CHECK_APPROACH("T-114", largest, recorded);
  }
}

TEST_CASE("long sums are within the bound in double-double, and would not be if their terms were not counted") {
  constexpr std::int64_t terms = 2000;
  std::mt19937_64 generator(8);
  std::uniform_real_distribution<double> positive(0.5, 1.0);
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {terms, ""}});
  Tensor<double> weights({terms, 1});
  for (double& w : weights.values) w = positive(generator);
  graph.outputs = {graph.add_node("sum", op::MatMul{}, {x, graph.add_constant("w", StoredTensor::from(weights))})};
  std::vector<double> points(terms * 3);
  for (double& c : points) c = positive(generator);
  const double largest = approach(graph, points, implicit::fastest_pair_block_kernels(), false);
  CHECK_APPROACH("T-114", largest, 0.00011);
  const std::vector<double> first(points.begin(), points.begin() + terms);
  const double counted = bounds::pair_error_bound(graph, {first, first}).value();
  checks::Theorems forgetful;
  forgetful.pair_dense_error = [](std::int64_t, Magnitude sum, Magnitude factor) {
    return proven::pair_dense_error(1, sum, factor);
  };
  const checks::ScopedTheorems in_force(forgetful);
  CHECK(largest * counted > 2.0 * bounds::pair_error_bound(graph, {first, first}).value());
}

namespace {

/// 2^100 (2^-600 x), which products lose before they are scaled, and a bias.
Graph scaled_after_underflow(double bias) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {1, ""}});
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<double>({1, 1}, {0x1p-600})));
  const ValueId c = graph.add_constant("c", StoredTensor::from(Tensor<double>({1}, {bias})));
  graph.outputs = {graph.add_node("y", op::Gemm{0x1p100, 1.0, false, false}, {x, w, c})};
  return graph;
}

}  // namespace

TEST_CASE("what products lose by underflow is lost alpha times where they are scaled afterwards (T-114)") {
  std::vector<double> points;
  for (int i = 0; i < 3000; ++i) points.push_back(std::ldexp(1.0 + i / 30000.0, -480));
  const Graph graph = scaled_after_underflow(-0x1p-1000);
  const std::vector<double> few(points.begin(), points.begin() + 40);
  CHECK(approach(graph, few, implicit::fastest_pair_block_kernels(), false) <= 1.0);
  CHECK(approach(scaled_after_underflow(0.0), few, implicit::fastest_pair_block_kernels(), false) <= 1.0);
  std::vector<PointSign> signs(points.size());
  const SignStatistics found = SignField(graph).signs(points.data(), 3000, 1, 1, signs);
  CHECK(found.positive == 3000);
}

TEST_CASE("every build gives the same bits in double-double, also to blocks that are not full") {
  for (const auto& [recorded, graph] : step_cases()) {
    const std::vector<double> points = sign_points::uniform(pair_rows + 3, 3, 7);
    const PairValues expected = values_of(*PairNetwork::of(graph, implicit::pair_blocks_baseline), points);
    for (const PairBlockKernels* kernels : implicit::usable_pair_block_kernels()) {
      const PairValues values = values_of(*PairNetwork::of(graph, *kernels), points);
      CHECK(std::memcmp(values.high.data(), expected.high.data(), values.high.size() * sizeof(double)) == 0);
      CHECK(std::memcmp(values.low.data(), expected.low.data(), values.low.size() * sizeof(double)) == 0);
    }
  }
}

TEST_CASE("the bundled networks are within their bounds in double-double, where signs are hardest") {
  for (const std::string name : {"siren", "torus_sdf_softplus", "mlp_2_10_10_2", "oscillator_d4_w16"}) {
    CAPTURE(name);
    const SignField field(bundled(name), scalar_of(name));
    const Graph graph = implicit::scalar_graph(bundled(name), scalar_of(name), 0.0);
    CHECK(approach(graph, sign_points::bisected(field, 5, 3), implicit::fastest_pair_block_kernels(), true) <= 1.0);
  }
}

TEST_CASE("a pair that is not finite, or out of the domain of a function, marks its row and no other") {
  constexpr std::size_t marked = 11;
  const auto check_marks = [&](const auto& run) {
    for (const double bad : {HUGE_VAL, -HUGE_VAL, 1.5e308, -1.5e308}) {
      checks::PairBlock x(pair_outputs), y(pair_outputs);
      for (std::size_t f = 0; f < pair_outputs; ++f)
        for (std::size_t row = 0; row < pair_rows; ++row) x.high(f, row) = row == marked ? bad : 0.75;
      double check[pair_rows] = {};
      run(x.data(), y.data(), check);
      for (std::size_t row = 0; row < pair_rows; ++row)
        CHECK((row == marked ? std::isnan(check[row]) : check[row] == 0.0));
    }
  };
  const std::vector<double> weights(2 * pair_outputs, 1.0), bias(pair_outputs, 0.0);
  for (const PairBlockKernels* kernels : implicit::usable_pair_block_kernels()) {
    for (const bool rectified : {false, true})
      check_marks([&](const double* x, double* y, double* check) {
        kernels->dense(weights.data(), bias.data(), x, y, 2, pair_outputs, rectified, check);
      });
    for (const std::size_t operation : {0U, 2U, 3U})
      check_marks([&](const double* x, double* y, double* check) {
        std::vector<double> other(x, x + 2 * pair_outputs * pair_rows);
        kernels->of_values[operation](x, other.data(), y, pair_outputs, check);
      });
    const std::vector<double> constants(pair_outputs, 0x1p899);
    for (const std::size_t operation : {2U, 3U})
      check_marks([&](const double* x, double* y, double* check) {
        kernels->with_constants[operation](x, constants.data(), y, pair_outputs, check);
      });
  }
  const auto graph = small_network(4, 1, [](Graph& g, ValueId x, const auto& constant) {
    const auto far = g.add_node("sin", op::Sin{}, {g.add_node("large", op::Mul{}, {x, constant("c", {1}, 1e7)})});
    return g.add_node("one of them", op::Max{}, {x, far});  // what is no number is not the larger one
  });
  CHECK(std::isnan(values_of(*PairNetwork::of(graph), {0.5, 0.5, 0.5}).high[0]));
}

TEST_CASE("quotients out of the range of T-90 are NaN, and pairs of one high part are told apart by the low one") {
  for (const PairBlockKernels* kernels : implicit::usable_pair_block_kernels()) {
    const auto result = [&](std::size_t operation, double a_high, double a_low, double b_high, double b_low) {
      checks::PairBlock a(1), b(1), y(1);
      for (std::size_t row = 0; row < pair_rows; ++row) {
        a.high(0, row) = a_high, a.low(0, row) = a_low;
        b.high(0, row) = b_high, b.low(0, row) = b_low;
      }
      double check[pair_rows] = {};
      kernels->of_values[operation](a.data(), b.data(), y.data(), 1, check);
      return std::pair(y.high(0, 3), y.low(0, 3));
    };
    constexpr std::size_t quotient = 3, larger = 4, smaller = 5;
    CHECK(result(quotient, 0.0, 0.0, 0.5, 0.0).first == 0.0);
    CHECK(result(quotient, 0x1p-900, 0.0, 0x1p-900, 0.0).first == 1.0);
    for (const auto& [a, b] :
         {std::pair(0.0, 0.0), {0.0, 0x1p-901}, {0x1p-901, 1.0}, {1.0, 0x1p901}, {0x1p-500, 0x1p401}, {0x1p901, 1.0}})
      CHECK(std::isnan(result(quotient, a, 0.0, b, 0.0).first));
    for (const double sign : {1.0, -1.0}) {
      CHECK(result(larger, 1.0, sign * 0x1p-60, 1.0, sign * 0x1p-61).second == (sign > 0.0 ? 0x1p-60 : -0x1p-61));
      CHECK(result(smaller, 1.0, sign * 0x1p-60, 1.0, sign * 0x1p-61).second == (sign > 0.0 ? 0x1p-61 : -0x1p-60));
    }
  }
}

TEST_CASE("what computes constants, or is no network of these steps, is not evaluated in double-double") {
  const auto packs = [](const auto& middle) { return PairNetwork::of(small_network(4, 1, middle)) != nullptr; };
  CHECK(packs(function(op::Relu{})));
  CHECK_FALSE(packs(function(op::Softmax{})));
  CHECK_FALSE(packs([](Graph& graph, ValueId x, const auto& constant) {
    return graph.add_node("scaled", op::Gemm{1.0, 0.7, false, false},
                          {x, constant("m", {4, 4}, 1.0), constant("c", {4}, 1.0)});
  }));
  CHECK_FALSE(packs([](Graph& graph, ValueId x, const auto& constant) {
    const auto c = graph.add_node("product", op::Mul{}, {constant("c", {4}, 1.0), constant("d", {4}, 1.0)});
    return graph.add_node("sum", op::Add{}, {x, c});
  }));
  CHECK(packs([](Graph& graph, ValueId x, const auto& constant) {
    const auto turned = graph.add_node("turned", op::Transpose{{1, 0}}, {constant("m", {4, 4}, 1.0)});
    return graph.add_node("product", op::MatMul{}, {x, turned});
  }));
}

TEST_CASE("signs in double-double by one bound are those of the oracle, inside the domain alone") {
  for (const std::string name : {"mlp_2_10_10_2", "oscillator_d2_w16", "sphere_cut_sdf_relu", "siren"}) {
    CAPTURE(name);
    const Target target = scalar_of(name);
    const Graph original = bundled(name);
    const SignField field(original, target);
    const Graph graph = implicit::scalar_graph(original, target, 0.0);
    const std::size_t d = field.dimension();
    std::vector<double> points = sign_points::bisected(field, 64, 9);
    const auto stage = PairStage::of(graph, unit_box(d));
    REQUIRE(stage != nullptr);
    std::vector<PointSign> signs(points.size() / d);
    stage->decide(points, signs);
    mpfr_network::Program program(original, target);
    std::size_t decided = 0;
    for (std::size_t row = 0; row < signs.size(); ++row) {
      const mpfr_network::Scalar exact = program.at(std::span(points).subspan(row * d, d));
      CHECK_FALSE(exact.is_beyond(signs[row].value, signs[row].bound));
      if (signs[row].sign == Sign::undecided) continue;
      ++decided;
      CHECK(exact.sign() == static_cast<int>(signs[row].sign));
      CHECK(signs[row].stage == SignStage::double_double);
    }
    CHECK(decided + signs.size() / 16 >= signs.size());
    points.assign(d, 1.5);
    stage->decide(points, std::span(signs).first(1));
    CHECK(signs[0].sign == Sign::undecided);
  }
}

TEST_CASE("the bound in double-double is found when enough points ask for it, and signs stay what they were") {
  const std::string name = "oscillator_d2_w16";
  const SignField few(bundled(name), scalar_of(name)), many(bundled(name), scalar_of(name));
  const std::vector<double> points = sign_points::bisected(few, 2000, 4);
  const std::vector<PointSign> expected = sign_points::signs_of(few, points);
  std::vector<PointSign> at_once = sign_points::signs_of(many, points);
  std::vector<PointSign> again = sign_points::signs_of(many, points);
  for (std::size_t row = 0; row < expected.size(); ++row) {
    CHECK(at_once[row].sign == expected[row].sign);
    CHECK(again[row].sign == expected[row].sign);
  }
}
