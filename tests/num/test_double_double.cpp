#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "num/double_double.hpp"
#include "num/double_double_cases.hpp"
#include "num/doubles.hpp"
#include "num/kernels/double_double_arithmetic.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"

using namespace driftbound;
using namespace driftbound::num;
using namespace driftbound_tests;

namespace {

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

}  // namespace

TEST_CASE("functions in double-double keep their bounds all over their domains" * doctest::test_suite("campaign")) {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Pairs x = Arguments(c, 90 + static_cast<std::uint64_t>(c.f)).draw(scaled_by_multiplier(6000));
    const Pairs y = evaluated(c.f, x);
    double worst = 0.0, at = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double share = share_of_bound(c, x.high[i], x.low[i], y.high[i], y.low[i]);
      if (share > worst) worst = share, at = x.high[i];
    }
    CAPTURE(at);
    CHECK_APPROACH(c.theorem, worst, c.recorded);
  }
}

TEST_CASE("gelu is precise next to itself where it is tiny (T-102)" * doctest::test_suite("campaign")) {
  std::mt19937_64 engine(102);
  std::uniform_real_distribution<double> tail(-40.0, gelu_tail), low(-0x1p-53, 0x1p-53);
  for (const Case& c : cases()) {
    if (c.f != F::gelu && c.f != F::gelu_tanh) continue;
    CAPTURE(c.name);
    Pairs x;
    x.add(std::nextafter(gelu_tail, -HUGE_VAL), 0.0);
    for (int i = 0; i < scaled_by_multiplier(4000); ++i) {
      const double high = i % 2 == 0 ? tail(engine) : gelu_tail * (1.0 + std::exp2(-52.0 * (i % 53) / 53.0));
      x.add(high, low(engine) * high);
    }
    const Pairs y = evaluated(c.f, x);
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, share_of_bound(c, x.high[i], x.low[i], y.high[i], y.low[i]));
      if (x.high[i] > -20.0) CHECK(y.high[i] < 0.0);
    }
    CHECK_APPROACH("T-102", worst, c.f == F::gelu ? 0.208 : 0.109);
  }
}

TEST_CASE("every build of the double-double functions gives the same bits, for every length") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    for (const int count : {0, 1, 3, 7, 8, 9, 2000}) {
      Pairs x = Arguments(c, 17).draw(count);
      if (count > 3)
        x.add(std::nan(""), 0.0), x.add(std::nan("0xffff"), 0.0), x.add(HUGE_VAL, 0.0), x.add(-1e-300, 1e-320),
            x.add(0.0, 0.0);
      const Pairs y = evaluated(c.f, x, double_double_baseline);
      for (const DoubleDoubleKernels* kernels : usable_double_double_kernels()) {
        CAPTURE(kernels->name);
        const Pairs z = evaluated(c.f, x, *kernels);
        CHECK(same_bits(y.high, z.high));
        CHECK(same_bits(y.low, z.low));
        Pairs same = x;
        evaluate(c.f, same.high, same.low, same.high, same.low, *kernels);
        CHECK(same_bits(y.high, same.high));
        CHECK(same_bits(y.low, same.low));
      }
    }
  }
}

TEST_CASE("functions in double-double have values up to the ends of their domains and none beyond") {
  const auto is_nan = [](F f, double high, double low) {
    Pairs x;
    x.add(high, low);
    const Pairs y = evaluated(f, x);
    CHECK(std::isnan(y.high[0]) == std::isnan(y.low[0]));
    CHECK(std::isinf(error_bound(error_of(f), high, y.high[0])) == std::isnan(y.high[0]));
    return std::isnan(y.high[0]);
  };
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    for (const double end : {c.low, c.high}) {
      CAPTURE(end);
      const bool finite = std::abs(end) < any;
      CHECK(!is_nan(c.f, end, 0.0));
      const double beyond = std::nextafter(end, end == c.low ? -HUGE_VAL : HUGE_VAL);
      if (finite) CHECK(is_nan(c.f, beyond, 0.0));
    }
    CHECK(is_nan(c.f, std::nan(""), 0.0));
    CHECK(is_nan(c.f, 1.0, std::nan("")));
    CHECK(is_nan(c.f, 0.5, 0x1.1p-54));
    CHECK(is_nan(c.f, HUGE_VAL, HUGE_VAL));
    CHECK(is_nan(c.f, 0x1.fp-901, 0.0));
    CHECK(is_nan(c.f, 0.0, 0x1p-1074));
    CHECK(!is_nan(c.f, 0x1p-900, 0.0));
    const bool has_0 = c.f != F::log && c.f != F::reciprocal;
    CHECK(is_nan(c.f, 0.0, 0.0) != has_0);
    CHECK(is_nan(c.f, -0.0, -0.0) != has_0);
  }
  CHECK(is_nan(F::log, 1.0, 0x1p-1074));  // its logarithm, which halves to 0
  CHECK(is_nan(F::log, 1.0, -0x1.fp-901));
  CHECK(!is_nan(F::log, 1.0, 0x1p-900));
  CHECK(!is_nan(F::log1p, 1.0, 0x1p-1074));
}

TEST_CASE("functions in double-double that are 0 or 1 at 0 are that exactly") {
  Pairs zero;
  zero.add(0.0, 0.0);
  for (const F f : {F::expm1, F::log1p, F::tanh, F::sin, F::erf, F::gelu, F::gelu_tanh, F::sqrt}) {
    const Pairs y = evaluated(f, zero);
    CHECK(y.high[0] == 0.0);
    CHECK(y.low[0] == 0.0);
  }
  for (const F f : {F::exp, F::cos}) CHECK(evaluated(f, zero).high[0] == 1.0);
  CHECK(evaluated(F::sigmoid, zero).high[0] == 0.5);
}

TEST_CASE("functions in double-double ask for arrays of one size and a sound environment") {
  std::vector<double> three(3), two(2);
  CHECK_THROWS_AS(evaluate(F::exp, three, two, three, three), InvalidArgument);
  CHECK_THROWS_AS(evaluate(F::exp, three, three, two, three), InvalidArgument);
  CHECK_THROWS_AS(evaluate(F::exp, three, three, three, two), InvalidArgument);
  std::fesetround(FE_UPWARD);
  CHECK_THROWS_AS(evaluate(F::exp, three, three, three, three), UnsoundEnvironment);
  std::fesetround(FE_TONEAREST);
}

namespace {

using A = DoubleDoubleArithmetic;

/// Of the first lane; all lanes hold the same pair.
Real real(A::Pair x) {
  return Real(x.high[0]) + Real(x.low[0]);
}

/// Pairs whose significands are random, or all ones, or few bits, where roundings are largest.
A::Pair random_pair(std::mt19937_64& engine) {
  std::uniform_real_distribution<double> significand(1.0, 2.0);
  const auto part = [&] { return engine() % 2 == 0 ? significand(engine) : 1.0 + 0x1p-20 * significand(engine); };
  const double high = part(), low = 0x1p-53 * std::min(part(), high);
  return {high, engine() % 2 == 0 ? low : -low};
}

}  // namespace

TEST_CASE("operations on sums of two doubles lose no more than T-90 says") {
  std::mt19937_64 engine(90);
  double product = 0.0, quotient = 0.0, root = 0.0, sum = 0.0;
  const auto share = [](A::Pair y, const Real& exact, const Real& bound) {
    return (abs(real(y) - exact) / (Real(0x1p-106) * bound)).to_double();
  };
  for (int i = 0; i < scaled_by_multiplier(40000); ++i) {
    const A::Pair x = random_pair(engine), y = random_pair(engine), minus_y = {-y.high, -y.low};
    const Real a = real(x), b = real(y);
    product = std::max(product, share(A::product(x, y), a * b, Real(6.0) * a * b));
    quotient = std::max(quotient, share(A::quotient(x, y), a / b, Real(11.0) * a / b));
    root = std::max(root, share(A::square_root(x), a.apply(mpfr_sqrt), Real(4.125) * a.apply(mpfr_sqrt)));
    sum = std::max(sum, share(A::sum(x, y), a + b, abs(a + b) + Real(2.0) * (a + b)));
    sum = std::max(sum, share(A::sum(x, minus_y), a - b, abs(a - b) + Real(2.0) * (a + b)));
  }
  CHECK_APPROACH("T-90", product, 0.667);
  CHECK_APPROACH("T-90", quotient, 0.715);
  CHECK_APPROACH("T-90", root, 0.75);
  CHECK_APPROACH("T-90", sum, 0.666);
}
