#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/accuracy.hpp"
#include "bounds/nodes/gelu_steps.hpp"
#include "bounds/nodes/smooth.hpp"
#include "bounds/rows/bound_cache.hpp"
#include "bounds/rows/run_step.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "support/approach.hpp"
#include "support/gelu.hpp"
#include "support/tally.hpp"
#include "support/trajectory_checks.hpp"

// Gelu as one function (T-124).

using namespace checks;

namespace {

constexpr double slope_error = 0x1p-49, curvature_error = 0x1p-47;

std::vector<double> arguments(Generator& generator) {
  std::vector<double> x = {0.0, -0.0, 9.0, -9.0, 12.0, -12.0, 1e3, -1e3, 0x1p-1074, -0x1p-1074, 8.9375, -0.0625};
  for (int i = -80; i <= 80; ++i) x.push_back(i / 16.0 + (i % 2 == 0 ? 1e-9 : 0.0));
  for (int i = 0; i < 4000; ++i) {
    const double scale = i % 4 == 0 ? 20.0 : i % 4 == 1 ? 3.0 : std::ldexp(8.0, -static_cast<int>(generator() % 60));
    x.push_back(uniform(generator, -1.0, 1.0) * scale);
  }
  return x;
}

bounds::Smooth gelu_of(bool is_tanh_form) {
  return is_tanh_form ? bounds::smooth_gelu_tanh : bounds::smooth_gelu;
}

}  // namespace

namespace {

struct Exact {
  Real value, slope, curvature;
};

/// Errors next to their bounds.
struct TalliesOfFunction {
  Tally of_values, of_slopes, of_curvatures;
};

/// Compares `f` with `exact_at`, a function to Exact; every build has to return the same bits, with and
/// without slopes, and refuse NaN and infinities.
template <class ExactAt>
TalliesOfFunction check_function(const bounds::Smooth& f, const std::vector<double>& x, const ExactAt& exact_at) {
  const std::size_t n = x.size();
  std::vector<double> y(n), slopes(n), curvatures(n);
  TalliesOfFunction tallies;
  auto& [of_values, of_slopes, of_curvatures] = tallies;
  REQUIRE(
      bounds::evaluate(f, bounds::fastest_element_kernels(), x.data(), y.data(), slopes.data(), curvatures.data(), n));
  for (std::size_t i = 0; i < n; ++i) {
    const Exact exact = exact_at(x[i]);
    of_values.add(y[i], exact.value, f.numbers.relative * std::abs(y[i]) + f.numbers.absolute);
    of_slopes.add(slopes[i], exact.slope, slope_error);
    of_curvatures.add(curvatures[i], exact.curvature, curvature_error);
  }
  for (const Tally& tally : {of_values, of_slopes, of_curvatures}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
  }
  MESSAGE(of_values.utilisation << " " << of_slopes.utilisation << " " << of_curvatures.utilisation);
  for (const bounds::ElementKernels* kernels : bounds::usable_element_kernels()) {
    CAPTURE(kernels->name);
    std::vector<double> again(n), alone(n), slopes_again(n), curvatures_again(n);
    const auto function = kernels->*f.bends;
    CHECK(function(x.data(), again.data(), slopes_again.data(), curvatures_again.data(), n));
    CHECK(function(x.data(), alone.data(), nullptr, nullptr, n));
    CHECK(again == y);
    CHECK(alone == y);
    CHECK(slopes_again == slopes);
    CHECK(curvatures_again == curvatures);
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      std::vector<double> spoilt(11, 0.5), refused(11);
      spoilt[9] = bad;
      CHECK_FALSE(function(spoilt.data(), refused.data(), nullptr, nullptr, spoilt.size()));
    }
  }
  return tallies;
}

}  // namespace

TEST_CASE("Gelu, its slope and its curvature lie within their bounds, the same bits in every build (T-124)") {
  for (const bool is_tanh_form : {false, true}) {
    CAPTURE(is_tanh_form);
    Generator generator(91);
    const bounds::Smooth f = gelu_of(is_tanh_form);
    const TalliesOfFunction tallies = check_function(f, arguments(generator), [&](double x) {
      const ExactGelu exact = exact_gelu(Real(x), is_tanh_form);
      return Exact{exact.value, exact.slope, exact.curvature};
    });
    CHECK_APPROACH("T-124", tallies.of_values.utilisation, 0.0724);
    CHECK_APPROACH("T-124", tallies.of_slopes.utilisation, 0.1);
    CHECK_APPROACH("T-124", tallies.of_curvatures.utilisation, 0.0323);
    for (const bounds::ElementKernels* kernels : bounds::usable_element_kernels()) {
      CAPTURE(kernels->name);
      const std::vector<double> ends = {1.7e308, -1.7e308};
      std::vector<double> of_ends(2), slopes_of_ends(2), curvatures_of_ends(2);
      CHECK((kernels->*f.bends)(ends.data(), of_ends.data(), slopes_of_ends.data(), curvatures_of_ends.data(), 2));
      CHECK(of_ends[0] == 1.7e308);
      CHECK(std::abs(of_ends[1]) <= f.numbers.absolute);
      CHECK(std::abs(slopes_of_ends[0] - 1.0) <= slope_error);
      CHECK(std::abs(slopes_of_ends[1]) <= slope_error);
      for (const double curvature : curvatures_of_ends) CHECK(std::abs(curvature) <= curvature_error);
    }
  }
}

TEST_CASE("erf, its slope and its curvature lie within their bounds, the same bits in every build (T-88)") {
  Generator generator(93);
  const Real root_of_pi = Real(-1.0).apply(mpfr_acos).apply(mpfr_sqrt);
  const TalliesOfFunction tallies = check_function(bounds::smooth_erf, arguments(generator), [&](double x) {
    const Real at(x), slope = Real(2.0) / root_of_pi * (-(at * at)).apply(mpfr_exp);
    return Exact{at.apply(mpfr_erf), slope, Real(2.0) * Real(std::abs(x)) * slope};
  });
  CHECK_APPROACH("T-88", tallies.of_values.utilisation, 0.148);
  CHECK_APPROACH("T-88", tallies.of_slopes.utilisation, 0.2);
  CHECK_APPROACH("T-88", tallies.of_curvatures.utilisation, 0.06);
}

namespace {

/// At least |f''''| of the form with tanh for |x| in [a, b].
double fourth_derivative(double a, double b) {
  constexpr double step = 1.5957692, bend = 0.0713549;
  const double v1 = step + 3.0 * bend * b * b, v2 = 6.0 * bend * b, v3 = 6.0 * bend;
  const double of_third = v1 * v1 * v1 + 3.0 * v1 * v2 + v3;
  const double of_fourth = 2.0 * v1 * v1 * v1 * v1 + 6.0 * v1 * v1 * v2 + 3.0 * v2 * v2 + 4.0 * v1 * v3;
  return 1.001 * std::min(0.25, std::exp(-1.5957 * a - 0.07135 * a * a * a)) * (4.0 * of_third + b * of_fourth);
}

}  // namespace

TEST_CASE("no slope, curvature or third derivative of Gelu is beyond what is taken for the largest (T-124)" *
          doctest::test_suite("campaign")) {
  constexpr double h = 0x1p-12;
  for (const bool is_tanh_form : {false, true}) {
    const bounds::Smooth f = gelu_of(is_tanh_form);
    double slope = 0.0, curvature = 0.0, third = 0.0, third_with_steps = 0.0;
    for (double x = 0.0; x <= 9.0; x += h) {
      const ExactGelu exact = exact_gelu(Real(x), is_tanh_form);
      slope = std::max(slope, std::abs(exact.slope.to_double()));
      curvature = std::max(curvature, std::abs(exact.curvature.to_double()));
      const double at_x = std::abs(exact.third.to_double());
      third = std::max(third, at_x);
      third_with_steps = std::max(third_with_steps, at_x + h * fourth_derivative(x, x + h));
    }
    if (is_tanh_form) CHECK(third_with_steps <= f.numbers.third_derivative);
    CHECK_APPROACH("T-124", third / f.numbers.third_derivative, 0.998);
    CHECK_APPROACH("T-124", (curvature + h * f.numbers.third_derivative) / f.numbers.most_curvature, 0.998);
    CHECK_APPROACH("T-124", (slope + h * f.numbers.most_curvature) / bounds::steepest_slope(op::Gelu{}).value(), 0.999);
  }
}

namespace {

/// The body of Gelu with every step off by as much as it may be, or as little.
class WrongSteps {
public:
  /// `underflow`: how far products and quotients may be off besides, as those of subnormal numbers are.
  WrongSteps(const bounds::Setting& setting, Generator& generator, double underflow = 0.0)
      : setting_(setting), generator_(generator), underflow_(underflow) {}

  Real gelu(const Real& x, bool is_tanh_form) {
    const Real one(1.0);
    Real share;
    if (is_tanh_form) {
      const Real pi = Real(4.0) * function("atan", one.apply(mpfr_atan));
      const Real root = function("sqrt", rounded(Real(2.0) / pi).apply(mpfr_sqrt));
      const Real coefficient = rounded(Real(44715.0) / Real(1e6)), cube = product(x, product(x, x));
      share = function("tanh", product(root, rounded(x + product(coefficient, cube))).apply(mpfr_tanh));
    } else {
      share = function("erf", (rounded(x / root_of_two()) + lost()).apply(mpfr_erf));
    }
    const Real half = Real(0.5) * x + lost();
    return product(half, rounded(one + share));
  }

private:
  Real sign() { return Real(static_cast<double>(generator_() % 3) - 1.0); }
  Real lost() { return sign() * Real(underflow_); }
  Real rounded(const Real& x) { return x + sign() * Real(setting_.machine.u) * x; }
  Real product(const Real& a, const Real& b) { return rounded(a * b) + lost(); }
  Real root_of_two() {
    if (!is_correctly_rounded(setting_.arithmetic->accuracy("sqrt")))
      return function("sqrt", Real(2.0).apply(mpfr_sqrt));
    const double unit = 2.0 * setting_.machine.u;
    return Real(std::nearbyint(std::sqrt(2.0) / unit) * unit);
  }
  Real function(const char* name, const Real& exact) {
    std::set<std::string> conditions;
    const bounds::FunctionError error = bounds::error_of(name, setting_, conditions);
    const Real u(setting_.machine.u);
    return exact + sign() * (Real(error.units) * u * abs(exact) + Real(error.absolute_units) * u);
  }

  const bounds::Setting& setting_;
  Generator& generator_;
  double underflow_;
};

/// Every function `units` off, and as many units of 1.
ArithmeticModel with_rough_functions(double units) {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  if (units > 0.0)
    for (FunctionAccuracy& entry : arithmetic.functions) entry.units = entry.absolute_units = units;
  return arithmetic;
}

void check_steps(const ArithmeticModel& arithmetic, double approach_of_erf, double approach_of_tanh) {
  for (const double u : {0x1p-24, 0x1p-16, 0x1p-11, 0x1p-8}) {
    bounds::Setting setting = setting_of(arithmetic);
    setting.machine.u = u;
    for (const bool is_tanh_form : {false, true}) {
      CAPTURE(u);
      CAPTURE(is_tanh_form);
      std::set<std::string> conditions;
      const auto steps = bounds::gelu_steps(op::Gelu{is_tanh_form}, setting, conditions);
      if (is_tanh_form && u > 0x1p-16) {
        CHECK_FALSE(steps.has_value());  // 44715 has 16 bits
        continue;
      }
      REQUIRE(steps.has_value());
      Generator generator(92);
      WrongSteps run(setting, generator);
      Tally tally;
      for (int i = 0; i < 5000 * test_multiplier(); ++i) {
        const double x = uniform(generator, -1.0, 1.0) * std::ldexp(8.0, -static_cast<int>(generator() % 8));
        const Real exact = gelu(Real(x), is_tanh_form);
        const double allowed =
            steps->units.value() * u * std::abs(exact.to_double()) + steps->each.value() * std::abs(x);
        tally.add(0.0, run.gelu(Real(x), is_tanh_form) - exact, allowed * (1.0 + 0x1p-40));
      }
      INFO(tally.first_violation);
      CHECK(tally.violations == 0);
      CHECK_APPROACH("T-124", tally.utilisation, is_tanh_form ? approach_of_tanh : approach_of_erf);
      const double largest = setting.machine.accumulator->largest;
      CHECK(steps->stay_finite(Magnitude(4.3e12), largest));
      CHECK(steps->stay_finite(Magnitude(4.5e12), largest) == !is_tanh_form);  // 4 x^3 is beyond 2^128
      CHECK_FALSE(steps->stay_finite(Magnitude(largest), largest));
    }
  }
}

}  // namespace

TEST_CASE("a run of the body of Gelu is off by no more than its steps allow (T-124)" *
          doctest::test_suite("campaign")) {
  check_steps(with_rough_functions(0.0), 0.953, 0.833);
}

TEST_CASE("… where roots are not rounded correctly and functions have absolute errors (T-124)" *
          doctest::test_suite("campaign")) {
  check_steps(with_rough_functions(3.0), 0.931, 0.839);
}

TEST_CASE("… where products of subnormal numbers lose what is below the least of them (T-124)") {
  const ArithmeticModel arithmetic = with_rough_functions(0.0);
  const bounds::Setting setting = setting_of(arithmetic);
  const double u = setting.machine.u, eta = setting.machine.eta;
  for (const bool is_tanh_form : {false, true}) {
    std::set<std::string> conditions;
    const auto steps = bounds::gelu_steps(op::Gelu{is_tanh_form}, setting, conditions);
    REQUIRE(steps.has_value());
    Generator generator(93);
    WrongSteps run(setting, generator, eta);
    Tally tally;
    for (int i = 0; i < 5000 * test_multiplier(); ++i) {
      const double x = uniform(generator, -1.0, 1.0) * std::ldexp(1.0, -149 + static_cast<int>(generator() % 40));
      const Real exact = gelu(Real(x), is_tanh_form);
      const double relative =
          steps->units.value() * u * std::abs(exact.to_double()) + steps->each.value() * std::abs(x);
      tally.add(0.0, run.gelu(Real(x), is_tanh_form) - exact, (relative + steps->least.value()) * (1.0 + 0x1p-40));
    }
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-124", tally.utilisation, 0.66);
  }
}

TEST_CASE("nothing is said of the steps of Gelu where roots are far off (T-124)") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  for (FunctionAccuracy& entry : arithmetic.functions)
    if (entry.function == "sqrt") entry.units = 0x1p14;
  const bounds::Setting setting = setting_of(arithmetic);
  std::set<std::string> conditions;
  CHECK_FALSE(bounds::gelu_steps(op::Gelu{true}, setting, conditions).has_value());
  CHECK(bounds::gelu_steps(op::Gelu{false}, setting, conditions).has_value());
}

TEST_CASE("what errors of its argument make of the share of Gelu is hardly more than its steepness (T-124)") {
  double of_erf = 0.0, of_tanh = 0.0, of_cube = 0.0, of_all = 0.0;  // largest z e'(z), and times kappa and 2 + 3 kappa
  for (int i = 1; i < 1 << 14; ++i) {
    const double z = std::ldexp(i, -11), x = z / 0.7978845608, of_square = 0.044715 * x * x;
    of_erf = std::max(of_erf, z * 1.1283791670955126 * std::exp(-z * z));
    const double argument = z * (1.0 + of_square), kappa = of_square / (1.0 + of_square);
    const double steepness = argument / (std::cosh(argument) * std::cosh(argument));
    of_tanh = std::max(of_tanh, steepness);
    of_cube = std::max(of_cube, kappa * steepness);
    of_all = std::max(of_all, (2.0 + 3.0 * kappa) * steepness);
  }
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  for (FunctionAccuracy& entry : arithmetic.functions)
    if (entry.function != "sqrt") entry.units = entry.absolute_units = 0.0;
  const bounds::Setting setting = setting_of(arithmetic);
  constexpr double u = 0x1p-24;
  std::set<std::string> conditions;
  const auto each_of = [&](bool is_tanh_form) {
    return bounds::gelu_steps(op::Gelu{is_tanh_form}, setting, conditions)->each.value() / (0.5 * u);
  };
  const double root_of_two = std::abs(static_cast<double>(std::sqrt(2.0f)) / std::sqrt(2.0) - 1.0) / u;
  const double erf = of_erf * (1.0 + root_of_two), tanh = of_cube + of_tanh * (0.5 + 1.0) + of_all;
  CHECK(each_of(false) >= erf);
  CHECK(each_of(false) <= 1.001 * erf);
  CHECK(each_of(true) >= tanh);
  CHECK(each_of(true) <= 1.006 * tanh);

  bounds::Setting narrow = setting;
  for (const double coarse : {0x1p-16, 0x1p-8}) {
    CAPTURE(coarse);
    narrow.machine.u = coarse;
    const double of_root = std::abs(std::nearbyint(std::sqrt(0.5) / coarse) * coarse / std::sqrt(0.5) - 1.0);
    const double least = 0.5 * (of_erf * of_root + 2.0 * coarse * coarse);
    const double fixed = bounds::gelu_steps(op::Gelu{false}, narrow, conditions)->each_by_no_chance.value();
    CHECK(fixed >= least);
    CHECK(fixed <= (1.001 + 4.0 * coarse) * least);
  }
  const double fixed = bounds::gelu_steps(op::Gelu{true}, setting, conditions)->each_by_no_chance.value() / (0.5 * u);
  CHECK(fixed >= of_cube + of_tanh * 1.5);
  CHECK(fixed <= 1.009 * (of_cube + of_tanh * 1.5));
}

TEST_CASE("what Gelu does not leave to chance are its constants, its functions and what is not linear (T-124)") {
  const ArithmeticModel arithmetic = with_rough_functions(3.0);
  const bounds::Setting setting = setting_of(arithmetic);
  constexpr std::size_t size = 8;
  for (const bool is_tanh_form : {false, true}) {
    CAPTURE(is_tanh_form);
    Graph graph;
    const ValueId in = graph.add_input("x", ElementType::f32, {{-1, "N"}, {static_cast<std::int64_t>(size), ""}});
    graph.outputs = {graph.add_node("gelu", op::Gelu{is_tanh_form}, {in})};
    const Program program(graph, {{1, static_cast<std::int64_t>(size)}}, 1);
    bounds::BoundCache operands;
    std::set<std::string> conditions;
    const bounds::RowNode node{program, program.fused().nodes[0], {nullptr}};
    const auto step = bounds::run_step_of(node, {}, setting, operands, conditions);
    REQUIRE(step != nullptr);
    bounds::RunRows x, y;
    x.resize(1, size, false);
    y.resize(1, size, false);
    for (std::size_t i = 0; i < size; ++i) x.centre[i] = 0.75 * static_cast<double>(i) - 2.5;
    std::fill(x.radius.begin(), x.radius.end(), 0x1p-6);
    x.norm[0] = 1.0;
    bounds::RunRequest request;
    request.chance = {4.0, 6.0};
    bounds::RunErrors errors;
    bounds::RunScratch scratch;
    std::vector<char> undecided(1, 0);
    const bounds::RunRows* const operand = &x;
    step->forward({&operand, 1}, request, y, errors, undecided, scratch);
    CHECK(undecided[0] == 0);
    CHECK(errors.rounds_once);
    const auto steps = bounds::gelu_steps(op::Gelu{is_tanh_form}, setting, conditions);
    REQUIRE(errors.residuals.size() == size);
    for (std::size_t i = 0; i < size; ++i) {
      const double of_shadow = 9.0 * 0x1p-53 * std::abs(y.centre[i]) + 40.0 * 0x1p-53;
      const double farthest = std::abs(x.centre[i]) + 0x1p-6;
      const double least = steps->each_by_no_chance.value() * farthest + of_shadow;
      CHECK(errors.residuals[i] >= least);
      CHECK(errors.residuals[i] <= 1.0001 * least);
    }
  }
}
