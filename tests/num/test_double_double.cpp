#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "num/double_double.hpp"
#include "num/doubles.hpp"
#include "num/kernels/double_double_arithmetic.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"

using namespace driftbound;
using namespace driftbound::num;
using driftbound_tests::scaled_by_multiplier;
using F = DoubleDoubleFunction;

namespace {

Real exp_of(const Real& x) {
  return x.apply(mpfr_exp);
}

Real sigmoid_of(const Real& x) {
  return Real(1.0) / (Real(1.0) + exp_of(-x));
}

Real gelu_of(const Real& x) {
  return x / Real(2.0) * (-(x / Real(2.0).apply(mpfr_sqrt))).apply(mpfr_erfc);
}

Real pi() {
  return Real(4.0) * Real(1.0).apply(mpfr_atan);
}

Real gelu_tanh_of(const Real& x) {
  const Real cubic = x + Real(44715.0) / Real(1e6) * x * x * x;
  return x * sigmoid_of(Real(2.0) * (Real(2.0) / pi()).apply(mpfr_sqrt) * cubic);
}

struct Case {
  F f;
  std::string name, theorem;
  double low, high;  ///< of the domain
  double core;       ///< where most of what happens is within
  Real (*exact)(const Real&);
  double recorded;
};

const double huge = 0x1p1000, any = std::numeric_limits<double>::max();

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {F::exp, "exp", OF_THEOREM("T-91"), -620.0, 709.0, 20.0, exp_of, 0.137},
      {F::expm1, "expm1", OF_THEOREM("T-91"), -620.0, 709.0, 2.0, [](const Real& x) { return x.apply(mpfr_expm1); },
       0.105},
      {F::log, "log", OF_THEOREM("T-92"), 0x1p-900, huge, 4.0, [](const Real& x) { return x.apply(mpfr_log); }, 0.098},
      {F::log1p, "log1p", OF_THEOREM("T-92"), -1.0 + 0x1p-53, huge, 4.0,
       [](const Real& x) { return x.apply(mpfr_log1p); }, 0.110},
      {F::tanh, "tanh", OF_THEOREM("T-92"), -any, any, 2.0, [](const Real& x) { return x.apply(mpfr_tanh); }, 0.134},
      {F::sigmoid, "sigmoid", OF_THEOREM("T-92"), -620.0, any, 20.0, sigmoid_of, 0.201},
      {F::softplus, "softplus", OF_THEOREM("T-92"), -620.0, huge, 20.0,
       [](const Real& x) { return 700.0 < x.to_double() ? x : exp_of(x).apply(mpfr_log1p); }, 0.114},
      {F::sin, "sin", OF_THEOREM("T-93"), -0x1p20, 0x1p20, 4.0, [](const Real& x) { return x.apply(mpfr_sin); }, 0.133},
      {F::cos, "cos", OF_THEOREM("T-93"), -0x1p20, 0x1p20, 4.0, [](const Real& x) { return x.apply(mpfr_cos); }, 0.104},
      {F::erf, "erf", OF_THEOREM("T-94"), -any, any, 3.0, [](const Real& x) { return x.apply(mpfr_erf); }, 0.092},
      {F::gelu, "gelu", OF_THEOREM("T-94"), -huge, huge, 6.0, gelu_of, 0.127},
      {F::gelu_tanh, "gelu_tanh", OF_THEOREM("T-94"), -huge, huge, 6.0, gelu_tanh_of, 0.112},
      {F::sqrt, "sqrt", OF_THEOREM("T-90"), 0.0, huge, 4.0, [](const Real& x) { return x.apply(mpfr_sqrt); }, 0.559},
      {F::reciprocal, "reciprocal", OF_THEOREM("T-90"), -0x1p900, 0x1p900, 4.0,
       [](const Real& x) { return Real(1.0) / x; }, 0.557},
  };
  return all;
}

struct Pairs {
  std::vector<double> high, low;

  explicit Pairs(std::size_t count = 0) : high(count), low(count) {}
  std::size_t size() const { return high.size(); }
  void add(double h, double l) {
    high.push_back(h);
    low.push_back(l);
  }
};

/// Arguments all over a domain, with low parts of every kind.
class Arguments {
public:
  Arguments(const Case& of, std::uint64_t seed) : case_(of), engine_(seed) {}

  Pairs draw(int count) {
    Pairs x;
    for (int i = 0; i < count; ++i) {
      const double high = neighbour(point());
      if (high == 0.0 ? case_.f == F::reciprocal : std::abs(high) < 0x1p-900) continue;
      if (high >= case_.low && high <= case_.high) x.add(high, low_part(high));
      if (i % 4 == 0) add_near_multiple(x);
    }
    return x;
  }

private:
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  double sign() { return between(0, 1) == 0 ? 1.0 : -1.0; }

  double point() {
    switch (between(0, 7)) {
      case 0:
        return uniform(-case_.core, case_.core);
      case 1:  // every magnitude
        return sign() * std::exp2(uniform(-899.0, std::log2(std::min(case_.high, 0x1p1000))));
      case 2:
        return uniform(std::max(case_.low, -1000.0), std::min(case_.high, 1000.0));
      case 3:  // where logarithms change their power of two, and near 1
        return std::ldexp(between(0, 1) == 0 ? std::sqrt(0.5) : 1.0, between(-3, 3)) +
               sign() * std::exp2(-uniform(1, 53));
      case 4:  // where exp changes its
        return (between(-40, 40) + 0.5) * std::log(2.0) * (between(0, 1) == 0 ? 1.0 : 0.5);
      case 5:  // between two pieces of erf
        return (between(-160, 160) + 0.5) / 16.0 * (between(0, 1) == 0 ? 1.0 : std::sqrt(2.0));
      case 6:
        return static_cast<double>(static_cast<float>(uniform(-case_.core, case_.core)));
      default:
        return between(-64, 64) / 8.0;
    }
  }

  double neighbour(double x) {
    for (int steps = between(-2, 2); steps != 0; steps -= steps > 0 ? 1 : -1)
      x = std::nextafter(x, steps > 0 ? any : -any);
    return x;
  }

  double low_part(double high) {
    const double most = 0x1p-53 * high;
    switch (between(0, 4)) {
      case 0:
        return 0.0;
      case 1:
        return most;
      case 2:
        return -most;
      case 3:
        return sign() * most * std::exp2(-uniform(0.0, 60.0));
      default:
        return uniform(-1.0, 1.0) * most;
    }
  }

  /// Multiples of ln 2 / 2 and pi / 2 to all bits of a pair.
  void add_near_multiple(Pairs& x) {
    const bool angle = case_.f == F::sin || case_.f == F::cos;
    const double n = angle ? std::floor(uniform(-600000.0, 600000.0)) : between(-900, 900);
    const Real multiple = Real(n / 2.0) * (angle ? pi() : Real(2.0).apply(mpfr_log));
    const double high = multiple.to_double();
    if (high >= case_.low && high <= case_.high && high != 0.0) x.add(high, (multiple - Real(high)).to_double());
  }

  const Case& case_;
  std::mt19937_64 engine_;
};

Pairs evaluated(F f, const Pairs& x, const DoubleDoubleKernels& kernels = fastest_double_double_kernels()) {
  Pairs y(x.size());
  evaluate(f, x.high, x.low, y.high, y.low, kernels);
  return y;
}

/// The error over what is allowed; more than 1 where there is no value.
double share_of_bound(const Case& c, double x_high, double x_low, double y_high, double y_low) {
  if (!(std::abs(y_low) <= 0x1p-53 * std::abs(y_high))) return HUGE_VAL;
  const Real x = Real(x_high) + Real(x_low), exact = c.exact(x), error = abs(Real(y_high) + Real(y_low) - exact);
  const DoubleDoubleError stated = error_of(c.f);
  const Real bound = Real(stated.relative) * abs(exact) + Real(stated.of_argument) * abs(x) + Real(stated.absolute);
  const Real from_high_parts(error_bound(stated, x_high, y_high));
  if (!(error <= from_high_parts && from_high_parts <= Real(1.0 + 0x1p-30) * bound)) return HUGE_VAL;
  if (error <= Real(0.0)) return 0.0;
  return (error / bound).to_double();
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

}  // namespace

TEST_CASE("functions in double-double keep their bounds all over their domains") {
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

struct Scalar {
  using Doubles = double;
  using Integers = std::int64_t;
  using Naturals = std::uint64_t;
  static double fma(double x, double y, double z) { return std::fma(x, y, z); }
  static double sqrt(double x) { return std::sqrt(x); }
};

using A = DoubleDoubleArithmetic<Scalar>;

Real real(A::Pair x) {
  return Real(x.high) + Real(x.low);
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
