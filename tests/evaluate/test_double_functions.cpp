#include <doctest/doctest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "evaluate/functions.hpp"

namespace {

namespace accumulator = driftbound::accumulator;

/// f(x) by formula at so many bits that rounding it again to double is rounding once, short of exact ties.
class Reference {
public:
  explicit Reference(double x) {
    mpfr_inits2(500, y_, t_, static_cast<mpfr_ptr>(nullptr));
    mpfr_set_d(y_, x, MPFR_RNDN);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference() { mpfr_clears(y_, t_, static_cast<mpfr_ptr>(nullptr)); }

  double of(int (*f)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) {
    f(t_, y_, MPFR_RNDN);
    return mpfr_get_d(t_, MPFR_RNDN);
  }
  double pow(double p) {
    mpfr_set_d(t_, p, MPFR_RNDN);
    mpfr_pow(t_, y_, t_, MPFR_RNDN);
    return mpfr_get_d(t_, MPFR_RNDN);
  }
  double sigmoid() {
    mpfr_neg(t_, y_, MPFR_RNDN);
    mpfr_exp(t_, t_, MPFR_RNDN);
    mpfr_add_ui(t_, t_, 1, MPFR_RNDN);
    mpfr_ui_div(t_, 1, t_, MPFR_RNDN);
    return mpfr_get_d(t_, MPFR_RNDN);
  }
  double softplus() {
    mpfr_exp(t_, y_, MPFR_RNDN);
    mpfr_log1p(t_, t_, MPFR_RNDN);
    return mpfr_get_d(t_, MPFR_RNDN);
  }

private:
  mpfr_t y_, t_;
};

void check_same(double computed, double expected) {
  CHECK(std::bit_cast<std::uint64_t>(computed) == std::bit_cast<std::uint64_t>(expected));
}

void check_all(double x) {
  CAPTURE(x);
  check_same(accumulator::exp(x), Reference(x).of(mpfr_exp));
  check_same(accumulator::expm1(x), Reference(x).of(mpfr_expm1));
  check_same(accumulator::tanh(x), Reference(x).of(mpfr_tanh));
  check_same(accumulator::sin(x), Reference(x).of(mpfr_sin));
  check_same(accumulator::cos(x), Reference(x).of(mpfr_cos));
  check_same(accumulator::erf(x), Reference(x).of(mpfr_erf));
  check_same(accumulator::log(x), Reference(x).of(mpfr_log));
  check_same(accumulator::log1p(x), Reference(x).of(mpfr_log1p));
  check_same(accumulator::tan(x), Reference(x).of(mpfr_tan));
  check_same(accumulator::atan(x), Reference(x).of(mpfr_atan));
  check_same(accumulator::sinh(x), Reference(x).of(mpfr_sinh));
  check_same(accumulator::cosh(x), Reference(x).of(mpfr_cosh));
  check_same(accumulator::sigmoid(x), Reference(x).sigmoid());
  check_same(accumulator::softplus(x), Reference(x).softplus());
  for (const double p : {0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, 1.5, -0.3, 17.0, 1e-300, 1e10}) {
    CAPTURE(p);
    check_same(accumulator::pow(x, p), Reference(x).pow(p));
  }
}

TEST_CASE("functions in double are correctly rounded") {
  std::mt19937_64 random(9);
  for (int i = 0; i < 30; ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;
    check_all(std::ldexp(unit, static_cast<int>(random() % 12) - 6));
  }
  for (const double x : {0x1p-52, 0x1p-53, -0x1p-60, 0x1p-1000, -0x1p-1074, 0x1p-1074, 1.0, -1.0, 36.5, 37.0}) {
    check_all(x);
  }
}

TEST_CASE("functions in double round once where the result is subnormal") {
  std::mt19937_64 random(10);
  for (int i = 0; i < 50; ++i) {
    const double x = -708.0 - 38.0 * static_cast<double>(random() >> 11) * 0x1p-53;
    CAPTURE(x);
    check_same(accumulator::exp(x), Reference(x).of(mpfr_exp));
    check_same(accumulator::sigmoid(x), Reference(x).sigmoid());
    check_same(accumulator::softplus(x), Reference(x).softplus());
    check_same(accumulator::erf(std::ldexp(x, -1070)), Reference(std::ldexp(x, -1070)).of(mpfr_erf));
  }
}

TEST_CASE("functions in double have their limits at the ends of the range") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double x : {1e308, inf}) {
    CHECK(accumulator::exp(x) == inf);
    CHECK(accumulator::exp(-x) == 0.0);
    CHECK(accumulator::expm1(-x) == -1.0);
    CHECK(accumulator::sigmoid(x) == 1.0);
    CHECK(accumulator::sigmoid(-x) == 0.0);
    CHECK(accumulator::softplus(x) == x);
    CHECK(accumulator::softplus(-x) == 0.0);
    CHECK(accumulator::tanh(-x) == -1.0);
    CHECK(accumulator::erf(x) == 1.0);
  }
  CHECK(std::isnan(accumulator::sin(inf)));
  CHECK(std::isnan(accumulator::tan(inf)));
  CHECK(accumulator::log(0.0) == -inf);
  CHECK(accumulator::log1p(-1.0) == -inf);
  CHECK(std::isnan(accumulator::log(-1.0)));
  CHECK(accumulator::sinh(-inf) == -inf);
  CHECK(accumulator::cosh(-inf) == inf);
  CHECK(accumulator::sinh(-711.0) == -inf);
  CHECK(accumulator::pow(NAN, 0.0) == 1.0);
  CHECK(accumulator::pow(-0.0, -3.0) == -inf);
  CHECK(accumulator::pow(-0.0, 0.5) == 0.0);
  CHECK(std::isnan(accumulator::pow(-8.0, 1.0 / 3.0)));
  CHECK(accumulator::pow(2.0, 1e308) == inf);
  CHECK(accumulator::pow(1.0 - 0x1p-53, 1e300) == 0.0);
  CHECK(accumulator::pow(1.0 + 0x1p-52, 1e-300) == 1.0);
  for (const double y : {accumulator::sigmoid(NAN), accumulator::softplus(NAN), accumulator::exp(NAN)}) {
    CHECK(std::isnan(y));
  }
}

}  // namespace
