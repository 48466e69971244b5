#include <doctest/doctest.h>

#include "bounds/elementary.hpp"
#include "support/rule_checks.hpp"

using namespace checks;

namespace {

const bounds::Rules& theorems() {
  return bounds::default_rules();
}

struct UnaryCase {
  const char* name;
  bounds::Rules::Unary rule;
  RealFunction f;
  double low, high, alpha, least_utilisation;
};

RealFunction of(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) {
  return [function](const Real& x) { return x.apply(function); };
}

Real relu_like(const Real& x, const Real& below) {
  return x < Real() ? below : x;
}

std::vector<UnaryCase> unary_cases() {
  const bounds::Rules& r = theorems();
  const auto leaky = [](double alpha) -> RealFunction {
    return [alpha](const Real& x) { return relu_like(x, Real(alpha) * x); };
  };
  const auto elu = [](double alpha) -> RealFunction {
    return [alpha](const Real& x) { return relu_like(x, Real(alpha) * x.apply(mpfr_expm1)); };
  };
  return {
      {"relu", r.relu, leaky(0.0), -4, 4, 0.0, 0.999},
      {"leaky relu", r.leaky_relu, leaky(0.1), -4, 4, 0.1, 0.999},
      {"leaky relu, negative slope", r.leaky_relu, leaky(-0.5), -4, 4, -0.5, 0.999},
      {"leaky relu, steep", r.leaky_relu, leaky(3.0), -4, 4, 3.0, 0.999},
      {"elu", r.elu, elu(0.8), -8, 8, 0.8, 0.99},
      {"elu, steep", r.elu, elu(2.5), -8, 8, 2.5, 0.99},
      {"tanh", r.tanh, of(mpfr_tanh), -10, 10, 0.0, 0.99},
      {"sigmoid", r.sigmoid, [](const Real& x) { return Real(1.0) / (Real(1.0) + (-x).apply(mpfr_exp)); }, -20, 20, 0.0,
       0.99},
      {"softplus", r.softplus, [](const Real& x) { return x.apply(mpfr_exp).apply(mpfr_log1p); }, -20, 20, 0.0, 0.99},
      {"sin", r.sin_or_cos, of(mpfr_sin), -50, 50, 0.0, 0.99},
      {"cos", r.sin_or_cos, of(mpfr_cos), -50, 50, 0.0, 0.99},
      {"erf", r.erf, of(mpfr_erf), -5, 5, 0.0, 0.99},
      {"exp", r.exp, of(mpfr_exp), -50, 50, 0.0, 0.9},
      {"sqrt", r.sqrt, of(mpfr_sqrt), 0.0, 10, 0.0, 0.99}};
}

}  // namespace

TEST_CASE("the propagation of every function of one variable contains every point of the interval, and comes near it") {
  for (const UnaryCase& c : unary_cases()) {
    CAPTURE(c.name);
    const Tally tally = check_unary_rule(c.rule, c.f, c.low, c.high, c.alpha, 1500 * test_multiplier(), 31);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation >= c.least_utilisation);
  }
}

TEST_CASE("an infinite radius stays infinite, however bounded the function") {
  for (const UnaryCase& c : unary_cases()) {
    CAPTURE(c.name);
    for (const double x : {-0.75, 0.0, 0.75}) {
      const bounds::Point p{x, Magnitude::infinite(), 0.5, Magnitude(0x1p-25), c.alpha};
      CHECK_FALSE(c.rule(p).is_finite());
    }
  }
}

TEST_CASE("a square root whose argument may be negative and a quotient whose divisor may be 0 have no bound") {
  CHECK_FALSE(theorems().sqrt(bounds::Point{1.0, Magnitude(1.5), 1.0, Magnitude(), 0.0}).is_finite());
  CHECK_FALSE(theorems().quotient(1.0, Magnitude(), 0.5, Magnitude(0.5)).is_finite());
  CHECK(theorems().sqrt(bounds::Point{1.0, Magnitude(1.0), 1.0, Magnitude(), 0.0}).is_finite());
}

TEST_CASE("sums, products and quotients contain every corner") {
  const int n = 2000 * test_multiplier();
  for (const Tally& tally : {check_binary_rule(
                                 theorems().sum, [](const Real&a, const Real&b) { return a + b; }, n, 32),
                             check_binary_rule(
                                 theorems().product, [](const Real&a, const Real&b) { return a * b; }, n, 33),
                             check_binary_rule(
                                 theorems().quotient, [](const Real&a, const Real&b) { return a / b; }, n, 34)}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation >= 0.99);
  }
}

TEST_CASE("softmax contains every corner of a box of logits") {
  const Tally tally = check_softmax_rule(theorems(), 300 * test_multiplier(), 35);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK(tally.utilisation >= 0.9);
}

TEST_CASE("sums of magnitudes in double are upper bounds, also where products underflow") {
  const Tally tally = check_product_up(theorems(), 3000 * test_multiplier(), 36);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
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
    if (x >= 0.0 && x < 700.0) REQUIRE(Real(x).apply(mpfr_expm1) <= Real(bounds::expm1_up(x)));
  }
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
