#include <doctest/doctest.h>

#include <limits>

#include "bounds/arithmetic/elementary.hpp"
#include "support/approach.hpp"
#include "support/rule_checks.hpp"
#include "support/theorems.hpp"

using namespace checks;

namespace {

struct UnaryCase {
  const char* theorem;
  const char* name;
  bounds::UnaryPropagation rule;
  RealFunction f;
  double low, high, alpha, least_utilisation;
};

RealFunction of(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) {
  return [function](const Real& x) { return x.apply(function); };
}

Real relu_like(const Real& x, const Real& below) {
  return x < Real() ? below : x;
}

RealFunction power(double p) {
  return [p](const Real& x) {
    return x.apply([p](mpfr_ptr y, mpfr_srcptr argument, mpfr_rnd_t rounding) {
      mpfr_t exponent;
      mpfr_init2(exponent, 53);
      mpfr_set_d(exponent, p, MPFR_RNDN);
      mpfr_pow(y, argument, exponent, rounding);
      mpfr_clear(exponent);
    });
  };
}

std::vector<UnaryCase> unary_cases() {
  const auto leaky = [](double alpha) -> RealFunction {
    return [alpha](const Real& x) { return relu_like(x, Real(alpha) * x); };
  };
  const auto elu = [](double alpha) -> RealFunction {
    return [alpha](const Real& x) { return relu_like(x, Real(alpha) * x.apply(mpfr_expm1)); };
  };
  return {
      {OF_THEOREM("T-41"), "relu", bounds::propagate_relu, leaky(0.0), -4, 4, 0.0, 0.999},
      {OF_THEOREM("T-41"), "leaky relu", bounds::propagate_leaky_relu, leaky(0.1), -4, 4, 0.1, 0.999},
      {OF_THEOREM("T-41"), "leaky relu, negative slope", bounds::propagate_leaky_relu, leaky(-0.5), -4, 4, -0.5, 0.999},
      {OF_THEOREM("T-41"), "leaky relu, steep", bounds::propagate_leaky_relu, leaky(3.0), -4, 4, 3.0, 0.999},
      {OF_THEOREM("T-43"), "elu", bounds::propagate_elu, elu(0.8), -8, 8, 0.8, 0.99},
      {OF_THEOREM("T-43"), "elu, steep", bounds::propagate_elu, elu(2.5), -8, 8, 2.5, 0.99},
      {OF_THEOREM("T-42"), "tanh", bounds::propagate_tanh, of(mpfr_tanh), -10, 10, 0.0, 0.99},
      {OF_THEOREM("T-42"), "sigmoid", bounds::propagate_sigmoid,
       [](const Real& x) { return Real(1.0) / (Real(1.0) + (-x).apply(mpfr_exp)); }, -20, 20, 0.0, 0.99},
      {OF_THEOREM("T-42"), "softplus", bounds::propagate_softplus,
       [](const Real& x) { return x.apply(mpfr_exp).apply(mpfr_log1p); }, -20, 20, 0.0, 0.99},
      {OF_THEOREM("T-42"), "sin", bounds::propagate_sin_or_cos, of(mpfr_sin), -50, 50, 0.0, 0.99},
      {OF_THEOREM("T-42"), "cos", bounds::propagate_sin_or_cos, of(mpfr_cos), -50, 50, 0.0, 0.99},
      {OF_THEOREM("T-42"), "erf", bounds::propagate_erf, of(mpfr_erf), -5, 5, 0.0, 0.99},
      {OF_THEOREM("T-43"), "exp", bounds::propagate_exp, of(mpfr_exp), -50, 50, 0.0, 0.9},
      {OF_THEOREM("T-43"), "sqrt", bounds::propagate_sqrt, of(mpfr_sqrt), 0.0, 10, 0.0, 0.99},
      {OF_THEOREM("T-46"), "log", bounds::propagate_log, of(mpfr_log), 0.0, 10, 0.0, 0.999},
      {OF_THEOREM("T-47"), "tan", bounds::propagate_tan, of(mpfr_tan), -1.5707, 1.5707, 0.0, 0.99},
      {OF_THEOREM("T-47"), "atan", bounds::propagate_atan, of(mpfr_atan), -20, 20, 0.0, 0.999},
      {OF_THEOREM("T-48"), "sinh", bounds::propagate_sinh, of(mpfr_sinh), -20, 20, 0.0, 0.99},
      {OF_THEOREM("T-48"), "cosh", bounds::propagate_cosh, of(mpfr_cosh), -20, 20, 0.0, 0.99},
      {OF_THEOREM("T-44"), "reciprocal", bounds::propagate_reciprocal, [](const Real& x) { return Real(1.0) / x; }, 0.0,
       4, 0.0, 0.999},
      {OF_THEOREM("T-50"), "abs", bounds::propagate_abs, of(mpfr_abs), -4, 4, 0.0, 0.999},
      {OF_THEOREM("T-49"), "cube", bounds::propagate_power, power(3.0), -4, 4, 3.0, 0.99},
      {OF_THEOREM("T-49"), "square", bounds::propagate_power, power(2.0), -4, 4, 2.0, 0.999},
      {OF_THEOREM("T-49"), "seventh power", bounds::propagate_power, power(7.0), -2, 2, 7.0, 0.99},
      {OF_THEOREM("T-49"), "power 1.5", bounds::propagate_power, power(1.5), 0.0, 4, 1.5, 0.99},
      {OF_THEOREM("T-49"), "power 1/3", bounds::propagate_power, power(1.0 / 3.0), 0.0, 4, 1.0 / 3.0, 0.99},
      {OF_THEOREM("T-49"), "power 0.9", bounds::propagate_power, power(0.9), 0.0, 4, 0.9, 0.99},
      {OF_THEOREM("T-49"), "power -1", bounds::propagate_power, power(-1.0), 0.0, 4, -1.0, 0.999},
      {OF_THEOREM("T-49"), "power -2", bounds::propagate_power, power(-2.0), -4.0, 0.0, -2.0, 0.99},
      {OF_THEOREM("T-49"), "power -0.3", bounds::propagate_power, power(-0.3), 0.0, 4, -0.3, 0.99}};
}

}  // namespace

TEST_CASE("the propagation of every function of one variable contains every point of the interval, and comes near it") {
  for (const UnaryCase& c : unary_cases()) {
    CAPTURE(c.name);
    const Tally tally = check_unary_rule(c.rule, c.f, c.low, c.high, c.alpha, 1500 * test_multiplier(), 31);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH(c.theorem, tally.utilisation, 1.0);
    CHECK(tally.utilisation >= c.least_utilisation);
  }
}

TEST_CASE("an infinite radius stays infinite, however bounded the function") {
  for (const UnaryCase& c : unary_cases()) {
    CAPTURE(c.name);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const double x : {-infinity, -0.75, 0.0, 0.75, infinity}) {
      CAPTURE(x);
      const bounds::Point p{x, Magnitude::infinite(), 0.5, Magnitude(0x1p-25), c.alpha};
      CHECK_FALSE(c.rule(p).is_finite());
    }
  }
}

TEST_CASE("tails of softplus move by a share of what they are (T-42)") {
  const auto softplus = [](double x) { return Real(x).apply(mpfr_exp).apply(mpfr_log1p); };
  for (const double x : {-8.0, -30.0, -200.0, -700.0}) {
    for (const double e : {0x1p-20, 0.01, 1.0, 5.0}) {
      const double moved = (softplus(x + e) - softplus(x)).to_double();
      const double bound = bounds::propagate_softplus(bounds::Point{x, Magnitude(e), 0.0, Magnitude(1.0), 0.0}).value();
      CHECK(bound >= moved);
      CHECK(bound <= 1.03 * moved);
    }
  }
}

TEST_CASE("a square root whose argument may be negative and a quotient whose divisor may be 0 have no bound") {
  CHECK_FALSE(bounds::propagate_sqrt(bounds::Point{1.0, Magnitude(1.5), 1.0, Magnitude(), 0.0}).is_finite());
  CHECK_FALSE(bounds::propagate_quotient(1.0, Magnitude(), 0.5, Magnitude(0.5)).is_finite());
  CHECK(bounds::propagate_sqrt(bounds::Point{1.0, Magnitude(1.0), 1.0, Magnitude(), 0.0}).is_finite());
}

TEST_CASE("where a logarithm, tangent or power may be undefined there is no bound") {
  const auto bound = [](bounds::UnaryPropagation rule, double x, double e, double y, double alpha) {
    return rule(bounds::Point{x, Magnitude(e), y, Magnitude(), alpha});
  };
  CHECK_FALSE(bound(bounds::propagate_log, 1.0, 1.0, 0.0, 0.0).is_finite());
  CHECK(bound(bounds::propagate_log, 1.0, 0.999, 0.0, 0.0).is_finite());
  CHECK_FALSE(bound(bounds::propagate_tan, 1.5, 0.08, 14.1014199, 0.0).is_finite());
  CHECK(bound(bounds::propagate_tan, 1.5, 0.07, 14.1014199, 0.0).is_finite());
  CHECK_FALSE(bound(bounds::propagate_tan, 0.0, 1.6, 0.0, 0.0).is_finite());
  CHECK_FALSE(bound(bounds::propagate_reciprocal, -1.0, 1.0, -1.0, 0.0).is_finite());
  CHECK_FALSE(bound(bounds::propagate_power, 1.0, 1.5, 1.0, 0.5).is_finite());
  CHECK_FALSE(bound(bounds::propagate_power, 1.0, 1.5, 1.0, 2.5).is_finite());
  CHECK_FALSE(bound(bounds::propagate_power, -1.0, 0.5, 1.0, 0.5).is_finite());
  CHECK_FALSE(bound(bounds::propagate_power, -1.0, 1.0, 1.0, -2.0).is_finite());
  CHECK(bound(bounds::propagate_power, 1.0, 1.0, 1.0, 0.5).is_finite());
  CHECK(bound(bounds::propagate_power, -1.0, 2.0, -1.0, 3.0).is_finite());
  CHECK(bound(bounds::propagate_power, 1.0, 5.0, 1.0, 0.0) == Magnitude());
}

TEST_CASE("a power keeps its bound where the stored value underflowed, and through 0") {
  const bounds::Point underflowed{1e-20, Magnitude(1e-5), 0.0, Magnitude(0x1p-149), 3.0};
  CHECK(bounds::propagate_power(underflowed).value() >= 1e-15);
  CHECK(bounds::propagate_power(underflowed).value() <= 1.001e-15);
  const bounds::Point tiny{1e20, Magnitude(0.9e20), 0.0, Magnitude(0x1p-149), -3.0};
  CHECK(bounds::propagate_power(tiny).value() >= 0.999e-57);
  CHECK(bounds::propagate_power(tiny).value() <= 1.001e-57);
  const bounds::Point at_zero{0.0, Magnitude(0.5), 0.0, Magnitude(), 5.0};
  CHECK(bounds::propagate_power(at_zero).value() >= 0x1p-5);
  CHECK(bounds::propagate_power(at_zero).value() <= 1.001 * 0x1p-5);
  CHECK(bounds::propagate_power(bounds::Point{0.0, Magnitude(), 0.0, Magnitude(), 1.5}) == Magnitude());
}

TEST_CASE("wide radii of powers, hyperbolic functions and logarithms are bounded within a hundredth") {
  for (const UnaryCase& c : unary_cases()) {
    const bool is_power = c.alpha != 0.0 && c.rule == bounds::propagate_power;
    if (!is_power && c.rule != bounds::propagate_log && c.rule != bounds::propagate_sinh &&
        c.rule != bounds::propagate_cosh && c.rule != bounds::propagate_atan)
      continue;
    CAPTURE(std::string(c.name));
    for (const double share : {0.125, 0.25, 0.5, 0.9}) {
      CAPTURE(share);
      const double x = c.low < -3.9 && c.high <= 0.0 ? -1.25 : 1.25, e = share * std::abs(x);
      const Real centre = c.f(Real(x));
      const Real up = abs(c.f(Real(x) + Real(e)) - centre), down = abs(c.f(Real(x) - Real(e)) - centre);
      const double change = (up < down ? down : up).to_double();
      const double y = centre.to_double();
      const double bound = c.rule({x, Magnitude(e), y, Magnitude(std::abs(y) * 0x1p-50), c.alpha}).value();
      CHECK(bound >= change);
      CHECK(bound <= 1.01 * change);
    }
  }
}

TEST_CASE("floor, ceil, round and sign have the bound 0 where no jump is in reach and none elsewhere") {
  const auto bound = [](bounds::UnaryPropagation rule, double x, double e) {
    return rule(bounds::Point{x, Magnitude(e), 0.0, Magnitude(), 0.0});
  };
  for (const auto rule : {bounds::propagate_floor, bounds::propagate_ceil}) {
    CHECK(bound(rule, 2.5, 0.25) == Magnitude());
    CHECK(bound(rule, -2.5, 0.25) == Magnitude());
    CHECK(bound(rule, 2.0, 0.0) == Magnitude());
    CHECK_FALSE(bound(rule, 2.5, 0.75).is_finite());
    CHECK_FALSE(bound(rule, 2.0, 1e-300).is_finite());
  }
  CHECK(bound(bounds::propagate_floor, 2.25, 0.25) == Magnitude());
  CHECK_FALSE(bound(bounds::propagate_ceil, 2.25, 0.25).is_finite());
  CHECK(bound(bounds::propagate_ceil, 1.75, 0.25) == Magnitude());
  CHECK_FALSE(bound(bounds::propagate_floor, 1.75, 0.25).is_finite());
  CHECK(bound(bounds::propagate_round, 2.25, 0.125) == Magnitude());
  CHECK(bound(bounds::propagate_round, 1.5, 0.0) == Magnitude());
  CHECK_FALSE(bound(bounds::propagate_round, 1.75, 0.375).is_finite());
  CHECK_FALSE(bound(bounds::propagate_round, 1.5, 1e-300).is_finite());
  CHECK(bound(bounds::propagate_sign, 1e-30, 0.9e-30) == Magnitude());
  CHECK(bound(bounds::propagate_sign, 0.0, 0.0) == Magnitude());
  CHECK_FALSE(bound(bounds::propagate_sign, -1.0, 1.0).is_finite());
  Generator generator(38);
  for (int i = 0; i < 3000; ++i) {
    const double x = uniform(generator, -3.0, 3.0), e = draw_radius(generator), t = x + uniform(generator, -e, e);
    if (bound(bounds::propagate_floor, x, e).is_finite()) CHECK(std::floor(x) == std::floor(t));
    if (bound(bounds::propagate_ceil, x, e).is_finite()) CHECK(std::ceil(x) == std::ceil(t));
    if (bound(bounds::propagate_round, x, e).is_finite()) CHECK(std::nearbyint(x) == std::nearbyint(t));
    if (bound(bounds::propagate_sign, x, e).is_finite()) CHECK((x > 0.0) == (t > 0.0));
  }
}

TEST_CASE("comparisons have the bound 0 where the ranges decide them and none elsewhere") {
  const auto decides = [](bounds::BinaryPropagation rule, double a, double ea, double b, double eb) {
    const Magnitude bound = rule(a, Magnitude(ea), b, Magnitude(eb));
    CHECK((bound == Magnitude() || !bound.is_finite()));
    return bound.is_finite();
  };
  CHECK(decides(bounds::propagate_greater, 1.0, 0.25, 0.25, 0.25));
  CHECK_FALSE(decides(bounds::propagate_greater, 1.0, 0.5, 0.25, 0.25));  // both may be 1/2, which is not greater
  CHECK(decides(bounds::propagate_greater, 0.25, 0.25, 1.0, 0.5));        // at most equal
  CHECK(decides(bounds::propagate_greater, 1.0, 0.0, 1.0, 0.0));
  CHECK_FALSE(decides(bounds::propagate_greater, 1.0, 1e-300, 1.0, 0.0));
  CHECK(decides(bounds::propagate_greater_or_equal, 1.0, 0.5, 0.25, 0.25));
  CHECK_FALSE(decides(bounds::propagate_greater_or_equal, 0.25, 0.25, 1.0, 0.5));
  CHECK(decides(bounds::propagate_equal, 1.0, 0.0, 1.0, 0.0));
  CHECK_FALSE(decides(bounds::propagate_equal, 1.0, 1e-300, 1.0, 0.0));
  CHECK(decides(bounds::propagate_equal, 1.0, 0.25, 0.25, 0.25));
  CHECK_FALSE(decides(bounds::propagate_equal, 1.0, 0.5, 0.25, 0.25));
  CHECK_FALSE(decides(bounds::propagate_greater, 1.0, std::numeric_limits<double>::infinity(), -1e300, 0.0));
  CHECK_FALSE(decides(bounds::propagate_greater, std::nan(""), 0.0, 1.0, 0.0));
  Generator generator(41);
  for (int i = 0; i < 3000 * test_multiplier(); ++i) {
    const double a = uniform(generator, -1.0, 1.0), ea = draw_radius(generator), eb = draw_radius(generator);
    const double b = a + uniform(generator, -3.0, 3.0) * (ea + eb);
    const Real s = Real(a) + Real(uniform(generator, -1.0, 1.0)) * Real(ea);
    const Real t = Real(b) + Real(uniform(generator, -1.0, 1.0)) * Real(eb);
    if (decides(bounds::propagate_greater, a, ea, b, eb)) CHECK((t < s) == (b < a));
    if (decides(bounds::propagate_greater_or_equal, a, ea, b, eb)) CHECK((t <= s) == (b <= a));
    if (decides(bounds::propagate_equal, a, ea, b, eb)) CHECK((t <= s && s <= t) == (a == b));
    const bool are_apart = std::abs(a - b) > 1.001 * (ea + eb);
    if (are_apart) CHECK(decides(bounds::propagate_equal, a, ea, b, eb));
  }
}

TEST_CASE("a choice moves as the operand it takes, and as far as the other one where it may take that") {
  CHECK(bounds::decides_choice(1.0, Magnitude(0.25)));
  CHECK_FALSE(bounds::decides_choice(1.0, Magnitude(0.5)));  // 1/2 takes the other
  CHECK(bounds::decides_choice(0.0, Magnitude(0.5)));
  CHECK_FALSE(bounds::decides_choice(0.0, Magnitude(0.75)));
  CHECK(bounds::decides_choice(0.5, Magnitude()));
  CHECK_FALSE(bounds::decides_choice(1.0, Magnitude::infinite()));
  CHECK_FALSE(bounds::decides_choice(std::nan(""), Magnitude()));
  CHECK(bounds::propagate_choice(true, 1.0, Magnitude(0.25), std::nan(""), Magnitude::infinite()) == Magnitude(0.25));
  CHECK_EXACT("T-54", bounds::propagate_choice(false, 1.0, Magnitude(0.25), 3.0, Magnitude(0.5)) == Magnitude(2.5));
  CHECK(bounds::propagate_choice(false, 1.0, Magnitude(4.0), 3.0, Magnitude(0.5)) == Magnitude(4.0));
  CHECK_FALSE(bounds::propagate_choice(false, 1.0, Magnitude(), 3.0, Magnitude::infinite()).is_finite());
}

TEST_CASE("log1p_up, log_up and atan_up lie above their functions, and near them") {
  Generator generator(39);
  for (int i = 0; i < 5000 * test_multiplier(); ++i) {
    const double x = std::ldexp(uniform(generator, 0.5, 1.0), static_cast<int>(generator() % 1000) - 500);
    CAPTURE(x);
    const Real log1p = Real(x).apply(mpfr_log1p), log = Real(x).apply(mpfr_log), atan = Real(x).apply(mpfr_atan);
    REQUIRE(log1p <= Real(bounds::log1p_up(x)));
    REQUIRE(Real(bounds::log1p_up(x)) <= log1p * Real(1.0 + 0x1p-16));
    REQUIRE(log <= Real(bounds::log_up(x)));
    REQUIRE(Real(bounds::log_up(x)) <= log + Real(0x1p-16));
    REQUIRE(atan <= Real(bounds::atan_up(x)));
    REQUIRE(Real(bounds::atan_up(x)) <= atan * Real(1.0 + 0x1p-16));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(bounds::log1p_up(0.0) == 0.0);
  CHECK(bounds::log1p_up(infinity) == infinity);
  CHECK(bounds::log1p_up(std::nan("")) == infinity);
  CHECK(bounds::log_up(0.0) == -infinity);
  CHECK(bounds::log_up(std::nan("")) == infinity);
  CHECK(bounds::atan_up(infinity) >= 1.5707963267948966);
  CHECK(bounds::atan_up(std::nan("")) >= 1.5707963267948966);
}

TEST_CASE("maxima and minima contain every corner and reach the furthest one") {
  const int n = 2000 * test_multiplier();
  const auto larger = [](const Real& a, const Real& b) { return a < b ? b : a; };
  const auto smaller = [](const Real& a, const Real& b) { return a < b ? a : b; };
  for (const Tally& tally : {check_binary_rule(bounds::propagate_max, larger, n, 40),
                             check_binary_rule(bounds::propagate_min, smaller, n, 41)}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation >= 0.999);
  }
  CHECK_EXACT("T-50", bounds::propagate_max(3.0, Magnitude(0.25), 1.0, Magnitude(1.0)) == Magnitude(0.25));
  CHECK(bounds::propagate_min(3.0, Magnitude(0.25), 1.0, Magnitude(1.0)) == Magnitude(1.0));
  CHECK(bounds::propagate_max(3.0, Magnitude(), 1.0, Magnitude(1.0)) == Magnitude());
}

TEST_CASE("a PRelu and a jump at a threshold contain every corner, and reach the furthest one (T-52)") {
  const int n = 2000 * test_multiplier();
  const Tally prelu = check_binary_rule(
      bounds::propagate_prelu, [](const Real& x, const Real& slope) { return relu_like(x, slope * x); }, n, 520);
  const Tally jump = check_unary_rule(
      bounds::propagate_thresholded_relu, [](const Real& x) { return x <= Real(0.5) ? Real() : x; }, -2.0, 2.0, 0.5, n,
      521);
  for (const Tally& tally : {prelu, jump}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-52", tally.utilisation, 1.0);
  }
}

TEST_CASE("reductions contain every corner, and reach the furthest one (T-53)") {
  const int n = 400 * test_multiplier();
  const auto larger = [](const Real& a, const Real& b) { return a < b ? b : a; };
  const auto smaller = [](const Real& a, const Real& b) { return a < b ? a : b; };
  for (const Tally& tally :
       {check_group_rule(
            bounds::propagate_reduce_sum, [](const Real&a, const Real&b) { return a + b; }, n, 530),
        check_group_rule(bounds::propagate_reduce_max, larger, n, 531),
        check_group_rule(bounds::propagate_reduce_min, smaller, n, 532)}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-53", tally.utilisation, 1.0);
  }
}

TEST_CASE("sums, products and quotients contain every corner") {
  const int n = 2000 * test_multiplier();
  for (const Tally& tally :
       {check_binary_rule(
            bounds::propagate_sum, [](const Real&a, const Real&b) { return a + b; }, n, 32),
        check_binary_rule(
            bounds::propagate_product, [](const Real&a, const Real&b) { return a * b; }, n, 33),
        check_binary_rule(
            bounds::propagate_quotient, [](const Real&a, const Real&b) { return a / b; }, n, 34)}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-44", tally.utilisation, 1.0);
    CHECK(tally.utilisation >= 0.99);
  }
}

TEST_CASE("softmax contains every corner of a box of logits") {
  const Tally tally = check_softmax_rule(300 * test_multiplier(), 35);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-45", tally.utilisation, 1.0);
}

TEST_CASE("sums of magnitudes in double are upper bounds, also where products underflow") {
  const Tally tally = check_product_up(3000 * test_multiplier(), 36);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-08", tally.utilisation, 1.0);
  CHECK(tally.utilisation >= 1.0 - 0x1p-44);
}

TEST_CASE("exp_up and exp_down enclose e^x, and expm1_up lies above e^x - 1") {
  Generator generator(37);
  for (int i = 0; i < 20000 * test_multiplier(); ++i) {
    const double scale = i % 4 == 0 ? 745.0 : i % 4 == 1 ? 20.0 : i % 4 == 2 ? 1.0 : 1e-6;
    const double x = uniform(generator, -scale, scale);
    CAPTURE(x);
    const Real exact = Real(x).apply(mpfr_exp);
    REQUIRE(Real(bounds::exp_down(x)) <= exact);
    REQUIRE(exact <= Real(bounds::exp_up(x)));
    if (std::abs(x) < 700.0) REQUIRE(Real(bounds::exp_up(x)) <= Real(bounds::exp_down(x)) * Real(1.0 + 0x1p-45));
    if (x >= 0.0 && x < 700.0) {
      const Real exact_expm1 = Real(x).apply(mpfr_expm1);
      REQUIRE(exact_expm1 <= Real(bounds::expm1_up(x)));
      REQUIRE(Real(bounds::expm1_up(x)) <= exact_expm1 * Real(1.0 + 0x1p-10));
    }
  }
  CHECK_EXACT("T-09", Real(bounds::exp_up(1.0)) <= Real(1.0).apply(mpfr_exp) * Real(1.0 + 0x1p-45));
  CHECK(bounds::exp_up(1e4) == std::numeric_limits<double>::infinity());
  CHECK(bounds::exp_down(-1e4) == 0.0);
  CHECK(bounds::exp_up(-1e4) > 0.0);
  CHECK(bounds::exp_up(std::nan("")) == std::numeric_limits<double>::infinity());
}

TEST_CASE("the declared orders round as often on a path as the counting table says") {
  using Kind = SummationOrder::Kind;
  const auto longest = [](const SummationOrder& order, std::size_t n) {
    std::vector<std::int64_t> roundings(n);
    bounds::path_lengths(order, std::vector<char>(n, 1), roundings);
    return *std::max_element(roundings.begin(), roundings.end());
  };
  CHECK(longest({Kind::sequential, 0, true}, 64) == 64);
  CHECK(longest({Kind::sequential, 0, false}, 64) == 64);
  CHECK(longest({Kind::blocked, 8, true}, 64) == 8 + 8 - 1);
  CHECK(longest({Kind::blocked, 8, false}, 64) == 8 + 8 - 1);
  CHECK(longest({Kind::split_k, 4, true}, 64) == 16 + 3);
  CHECK(longest({Kind::pairwise, 0, false}, 64) == 7);
  CHECK(longest({Kind::pairwise, 0, false}, 65) == 8);
  CHECK(longest({Kind::sequential, 0, true}, 1) == 1);
  std::vector<std::int64_t> roundings(6);
  bounds::path_lengths({Kind::blocked, 2, true}, std::vector<char>{0, 1, 0, 0, 1, 1}, roundings);
  CHECK(roundings == std::vector<std::int64_t>{0, 2, 0, 0, 3, 2});
}

TEST_CASE("T-131: elements that a mask hides weigh no more than is said, and the others hardly move without them") {
  const Tally tally = check_hidden_shares(400 * test_multiplier(), 48);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-131", tally.utilisation, 0.999);
  const Tally remainders = check_hidden_remainders(400 * test_multiplier(), 49);
  INFO(remainders.first_violation);
  CHECK(remainders.violations == 0);
  CHECK(remainders.checked > 1000);
  const std::vector<double> x = {1.0, -1e9, 0.5}, e = {1e-3, 64.0, 1e-3};
  const bounds::HiddenShares shares = bounds::hidden_shares(x, e);
  CHECK(shares.is_hidden == std::vector<char>{0, 1, 0});
  CHECK(shares.total == Magnitude(shares.largest[1]));
  const std::vector<double> near = {1.0, -62.0, 0.5}, unknown = {1e-3, HUGE_VAL, 1e-3};
  CHECK_FALSE(bounds::hidden_shares(near, e).any);
  CHECK_FALSE(bounds::hidden_shares(x, unknown).any);
}
