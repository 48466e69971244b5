#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "support/approach.hpp"
#include "support/chance_checks.hpp"
#include "support/theorems.hpp"
#include "support/trajectory_checks.hpp"

// The smallest graphs on which bounds are attained, or nearly so.

using namespace checks;

namespace {

constexpr double u = 0x1p-24;

ArithmeticModel fp32(const char* order = "sequential") {
  return cpu_arithmetic("fp32", parse_summation_order(order));
}

/// What the bounds say of one op whose only result is `computed`.
Tallies of_one(const Op& op, const std::vector<Tensor<double>>& operands, const Shape& shape, double computed,
               const Real& exact, const ArithmeticModel& arithmetic) {
  Tallies tallies;
  tallies.add(bounds_of(one_node(op, operands, {shape, {computed}}, arithmetic)), 0, computed, exact);
  INFO(tallies.first_violation());
  CHECK(tallies.violations() == 0);
  return tallies;
}

Tallies of_scalars(const Op& op, const std::vector<double>& operands, double computed, const Real& exact,
                   const ArithmeticModel& arithmetic) {
  std::vector<Tensor<double>> tensors;
  for (const double x : operands) tensors.push_back({{1}, {x}});
  return of_one(op, tensors, {1}, computed, exact, arithmetic);
}

constexpr double units = 1024.0;

/// float32 with functions that may be off by `units`.
ArithmeticModel with_units() {
  ArithmeticModel model = fp32();
  for (FunctionAccuracy& entry : model.functions) entry = {entry.function, units, Evidence::documented, "a test", 0.0};
  return model;
}

double units_in(const char* library, std::string_view function) {
  for (const FunctionAccuracy& entry : function_library(library).functions)
    if (entry.function == function) return entry.units;
  return 0.0;
}

/// The float nearest to 0 that a function with these units may give for a positive value.
float least_allowed(const Real& value) {
  return (value - Real(units * u) * value).to_float(MPFR_RNDU);
}

}  // namespace

TEST_CASE("a sum whose products all underflow loses half of the smallest number each (T-12)") {
  const std::int64_t k = 64;
  const std::vector<double> tiny(static_cast<std::size_t>(k), 0x1p-75);
  const Tallies tallies = of_one(op::MatMul{}, {{{1, k}, tiny}, {{k, 1}, tiny}}, {1, 1}, 0.0,
                                 Real(static_cast<double>(k) * 0x1p-150), fp32());
  CHECK_APPROACH("T-12", tallies.componentwise.utilisation, 0.98);
}

TEST_CASE("an operand half way between two numbers of the input format (T-13)") {
  const double a = 1.0 + 0x1p-11;
  const Tallies tallies = of_one(op::MatMul{}, {{{1, 1}, {a}}, {{1, 1}, {1.0}}}, {1, 1}, 1.0, Real(a),
                                 cpu_arithmetic("tf32", parse_summation_order("sequential")));
  CHECK_APPROACH("T-13", tallies.componentwise.utilisation, 0.999);
}

TEST_CASE("a cast of a number half way between two (T-14)") {
  const double x = 1.0 + 0x1p-8;
  const Tallies tallies = of_scalars(op::Cast{ElementType::bf16}, {x}, 1.0, Real(x), fp32());
  CHECK_APPROACH("T-14", tallies.componentwise.utilisation, 1.0);
}

TEST_CASE("sums and products half way between two numbers (T-15)") {
  Tallies sum = of_scalars(op::Add{}, {1.0, u}, 1.0, Real(1.0 + u), fp32());
  CHECK_APPROACH("T-15", sum.componentwise.utilisation, 1.0);
  const double x = 1.0 + 0x1p-12;
  Tallies product = of_scalars(op::Mul{}, {x, x}, 1.0 + 0x1p-11, Real(x) * Real(x), fp32());
  CHECK_APPROACH("T-15", product.componentwise.utilisation, 1.0);
}

TEST_CASE("functions that are as far off as their table allows (T-16, T-18)") {
  Generator generator(161);
  Tallies tanh, elu;
  const op::Elu steep{1.5};
  for (int i = 0; i < 300; ++i) {
    const double x = static_cast<double>(static_cast<float>(uniform(generator, 0.1, 8.0)));
    const Real f = Real(x).apply(mpfr_tanh), decay = -Real(-x).apply(mpfr_expm1);
    tanh += of_scalars(op::Tanh{}, {x}, static_cast<double>(least_allowed(f)), f, with_units());
    const float y = 1.5f * -least_allowed(decay);
    elu += of_scalars(steep, {-x}, static_cast<double>(y), Real(-1.5) * decay, with_units());
  }
  CHECK_APPROACH("T-16", tanh.componentwise.utilisation, 1.0);
  CHECK_APPROACH("T-18", elu.componentwise.utilisation, 1.0);
}

TEST_CASE("maxima in units in the last place are units of u |f| + eta, also below the normal range (T-20)") {
  const bounds::Machine machine = bounds::machine_of(fp32());
  const Format& single = format(FormatId::fp32);
  constexpr double hair = 0x1p-20;
  Tally normal, subnormal;
  const auto check = [&](double exact, double computed, double units) {
    Tally& tally = exact < single.smallest_normal ? subnormal : normal;
    tally.add(computed, Real(exact), bounds::allowed_error(Magnitude(exact), {units, 0.0}, machine).value());
  };
  for (const double x : {1.0, 1.25, 0x1p-126, 0x1p100, 2.0 - 0x1p-23, 0x3p-149, 0x1p-149, 0x1p-130}) {
    const double place = ulp(x, single), below = ulp(x - 0.25 * place, single);
    for (const auto& [function, most] : {std::pair("exp", 2.0), std::pair("tan", 4.0), std::pair("pow", 8.0)}) {
      const double units = units_in("cuda", function), rounded_up = x + place;
      CHECK(units == 2.0 * most + 1.0);
      check(x + (0.5 + hair) * place, rounded_up + most * ulp(rounded_up, single), units);
      check(x + (0.5 - hair) * place, x - most * below, units);
    }
    check(x, x + 2.0 * place, units_in("xla-gpu", "exp"));
    check(x + 0.5 * place, x + 2.0 * place, units_in("xla-gpu", "expm1"));
  }
  INFO(normal.first_violation, subnormal.first_violation);
  CHECK(normal.violations + subnormal.violations == 0);
  CHECK_APPROACH("T-20", normal.utilisation, 1.0);
  CHECK_APPROACH("T-20", subnormal.utilisation, 1.0);
}

TEST_CASE("a slope half way between two numbers, and a product that is (T-18)") {
  const double slope = 1.0 + u;
  const Tallies at_slope = of_scalars(op::LeakyRelu{slope}, {-1.0}, -1.0, Real(-slope), fp32());
  CHECK_APPROACH("T-18", at_slope.componentwise.utilisation, 1.0);
  const double x = 1.0 + 0x1p-12;
  const Tallies at_product = of_scalars(op::LeakyRelu{x}, {-x}, -(1.0 + 0x1p-11), -(Real(x) * Real(x)), fp32());
  CHECK_APPROACH("T-18", at_product.componentwise.utilisation, 1.0);
}

TEST_CASE("a softmax of equal logits whose exponentials err against each other (T-17)") {
  const std::size_t n = 32;
  const double off = units * u;
  std::vector<double> y(n, 1.0 / n);
  y[0] = static_cast<double>(static_cast<float>((1.0 + off) / ((1.0 + off) + (n - 1) * (1.0 - off))));
  const OneNode one = one_node(op::Softmax{}, {{{1, n}, std::vector<double>(n, 0.5)}}, {{1, n}, y}, with_units());
  Tally tally;
  tally.add(y[0], Real(1.0 / n), find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values[0]);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-17", tally.utilisation, 0.95);
}

TEST_CASE("inputs that are read rounded go through one node (T-40)") {
  const double x = 1.0 + u;
  CHECK_APPROACH("T-40", of_scalars(op::Neg{}, {x}, -1.0, Real(-x), fp32()).forward.utilisation, 1.0);
  Generator generator(401);
  Tally product;
  for (int i = 0; i < 500; ++i) {
    const double a = uniform(generator, 1.0, 2.0),
                 b = static_cast<double>(static_cast<float>(uniform(generator, 1.0, 2.0)));
    const float y = static_cast<float>(a) * static_cast<float>(b);
    product +=
        of_one(op::MatMul{}, {{{1, 1}, {a}}, {{1, 1}, {b}}}, {1, 1}, static_cast<double>(y), Real(a) * Real(b), fp32())
            .forward;
  }
  CHECK_APPROACH("T-40", product.utilisation, 1.0);
}

TEST_CASE("one rounding is all that a run, and the shadow, may lose at one node (T-61, T-70, T-71)") {
  const Tallies in_double =
      of_scalars(op::Add{}, {1.0, 0x1p-53}, 1.0, Real(1.0) + Real(0x1p-53), cpu_arithmetic("fp64", {}));
  CHECK_APPROACH("T-61", in_double.shadow.utilisation, 1.0);
  CHECK_APPROACH("T-80", in_double.shadow.utilisation, 1.0);
  const Tallies tallies = of_scalars(op::Add{}, {1.0, u}, 1.0, Real(1.0 + u), fp32());
  CHECK_APPROACH("T-70", tallies.shadow.utilisation, 1.0);
  CHECK_APPROACH("T-71", tallies.any_run.utilisation, 1.0);
}

TEST_CASE("products whose partial sums are all rounded down use what any run may (T-71)") {
  for (const std::int64_t k : {4, 32}) {
    CAPTURE(k);
    std::vector<double> a(static_cast<std::size_t>(k), u);
    a[0] = 1.0;
    const Tensor<double> ones({k, 1}, std::vector<double>(static_cast<std::size_t>(k), 1.0));
    const Tallies tallies = of_one(op::MatMul{}, {{{1, k}, a}, ones}, {1, 1}, 1.0,
                                   Real(1.0) + Real(static_cast<double>(k - 1) * u), fp32());
    const double all_but_one = static_cast<double>(k - 1) / static_cast<double>(k);
    CHECK_APPROACH("T-71", tallies.any_run.utilisation, all_but_one);
    CHECK_APPROACH("T-71", tallies.any_run_in_order.utilisation, all_but_one);
  }
}

TEST_CASE("the radius of 2x - x by its own adjoint is that of x (T-72)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{-1, "N"}, {1, ""}});
  const ValueId two = graph.add_constant("two", StoredTensor::from(Tensor<double>({1, 1}, {2.0})));
  const ValueId y = graph.add_node("y", op::Sub{}, {graph.add_node("2x", op::MatMul{}, {x, two}), x});
  graph.outputs = {graph.add_node("z", op::Exp{}, {y})};
  const double radius = 0x1p-10;
  Held held(graph, Tensor<double>({2, 1}, {0.5, 0.25}), radius, 2);
  CHECK(held.deviation().radii[y].element[0] > 2.9 * radius);
  held.refine();
  CHECK_APPROACH("T-72", radius / held.deviation().radii[y].element[0], 1.0);
  CHECK_APPROACH("T-72", std::exp(0.5) * std::expm1(radius) / held.certificate(0).total[0], 1.0);
}

TEST_CASE("a point of a box half way between two numbers, and a sum that is (T-77)") {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1});
  const ValueId half = graph.add_constant("half a unit", StoredTensor::from(Tensor<float>({1}, {0x1p-24f})));
  graph.outputs = {graph.add_node("y", op::Add{}, {x, half})};
  const double least = forward_error_bound(graph, fp32(), {{1.0}, {1.5}}).error.value();
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<double>({1}, {1.25 + u})));
  const double y = cpu_evaluator(fp32()).run(graph, inputs).layers[0].output.to_double().values[0];
  CHECK_APPROACH("T-77", ((1.25 + 2.0 * u) - y) / least, 1.0);
}

TEST_CASE("two rounding errors of one size leave the probabilistic bound as often as it says (T-74)") {
  const double above_one = 1.0 + 0x1p-20, p = 0.74;
  const SignRuns runs{{above_one}, {above_one}, {above_one}};
  const BoundResult result = probabilistic_bound(runs, p);
  const double frequency = runs.frequency_above(result.values.values[0]);
  CHECK_APPROACH("T-74", frequency / *result.failure_probability, 0.67);
}

TEST_CASE("sums of nonnegative numbers in double are raised by one unit (T-81)") {
  std::vector<double> sum = {1.0, 3.0, 1.0};
  const std::vector<double> more = {0x1p-53, 0x1p-52, 1.0};
  bounds::row_kernels().add(sum.data(), more.data(), sum.size());
  const std::vector<double> exact = {1.0 + 0x1p-53, 3.0 + 0x1p-52, 2.0};
  for (std::size_t i = 0; i < sum.size(); ++i) CHECK_APPROACH("T-81", exact[i] / sum[i], 1.0);
}
