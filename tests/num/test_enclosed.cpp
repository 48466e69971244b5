#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "num/enclosed.hpp"
#include "support/special_numbers.hpp"
#include "support/tally.hpp"

// Against MPFR at 700 bits.

using namespace driftbound;

namespace {

using Generator = std::mt19937_64;

double uniform(Generator& generator, double low, double high) {
  return low + (high - low) * static_cast<double>(generator() >> 11) * 0x1p-53;
}

struct Function {
  const char* name;
  Enclosed (*f)(double);
  std::function<Real(const Real&)> exact;
  double low, high;        ///< where the kernel holds
  double units, absolute;  ///< its error: units |f| 2^-53 + absolute
  double least_utilisation;
};

std::function<Real(const Real&)> of(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) {
  return [function](const Real& x) { return x.apply(function); };
}

std::vector<Function> functions() {
  const auto sigmoid = [](const Real& x) { return Real(1.0) / (Real(1.0) + (-x).apply(mpfr_exp)); };
  const auto softplus = [](const Real& x) {
    const Real small = (-abs(x)).apply(mpfr_exp).apply(mpfr_log1p);
    return x < Real() ? small : x + small;
  };
  return {
      {"exp", enclosed_exp, of(mpfr_exp), -708, 709, 2.0, 0.0, 0.5},
      {"expm1", enclosed_expm1, of(mpfr_expm1), -708, 709, 8.0, 0.0, 0.2},
      {"tanh", enclosed_tanh, of(mpfr_tanh), -350, 350, 6.0, 0.0, 0.4},
      {"sigmoid", enclosed_sigmoid, sigmoid, -700, 700, 4.0, 0.0, 0.4},
      {"softplus", enclosed_softplus, softplus, -700, 700, 9.0, 0.0, 0.2},
      {"sin", enclosed_sin, of(mpfr_sin), -0x1p20, 0x1p20, 2.5, 2.5 * 0x1p-53, 0.4},
      {"cos", enclosed_cos, of(mpfr_cos), -0x1p20, 0x1p20, 2.5, 2.5 * 0x1p-53, 0.4},
      {"erf", enclosed_erf, of(mpfr_erf), -1, 1, 10.0, 0.0, 0.1},
  };
}

/// Numbers of every size, and the neighbours of the points at which the kernels change their course.
std::vector<double> arguments(const Function& f, Generator& generator) {
  std::vector<double> points = {0.0, f.low, f.high};
  for (int k = -1100; k <= 1100; ++k) {
    points.push_back(0.5 * k * std::log(2.0));
    points.push_back(0.25 * k * std::log(2.0));
    points.push_back(0.25 * k * std::acos(-1.0));
    points.push_back(std::ldexp(1.0, k));
    points.push_back(-std::ldexp(1.0, k));
  }
  for (const double x : {708.0, 709.0, 709.9, 745.2, 350.0, 354.0, 700.0, 0x1p20, 0x1p40, 0x1p1000, 5.0}) {
    points.push_back(x);
    points.push_back(-x);
  }
  std::vector<double> all;
  for (const double x : points) {
    for (const double t : {std::nextafter(x, -infinity), x, std::nextafter(x, infinity)}) all.push_back(t);
    all.push_back(x * (1.0 + uniform(generator, -1e-9, 1e-9)));
  }
  for (int i = 0; i < 20000 * test_multiplier(); ++i) {
    const double scale = std::ldexp(1.0, static_cast<int>(generator() % 24) - 12);
    all.push_back(i % 2 == 0 ? uniform(generator, f.low, f.high) : uniform(generator, -scale, scale));
  }
  return all;
}

bool has_value(const Function& f, double x) {
  return std::string(f.name) != "log1p" || x > -1.0;
}

}  // namespace

TEST_CASE("every function lies within its error of MPFR's, which comes near it" * doctest::test_suite("campaign")) {
  Generator generator(91);
  for (const Function& f : functions()) {
    CAPTURE(std::string(f.name));
    Tally tally;
    for (const double x : arguments(f, generator)) {
      if (!has_value(f, x)) continue;
      const Enclosed y = f.f(x);
      const bool is_in_domain = x >= f.low && x <= f.high;
      if (std::isinf(y.error)) {
        CHECK_FALSE(is_in_domain);
        continue;
      }
      const Real exact = f.exact(Real(x));
      if (is_in_domain) {
        tally.add(y.value, exact, y.error);
        if (std::abs(x) >= 0x1p-500)
          REQUIRE(y.error <= (f.units * 0x1p-53 * std::abs(y.value) + f.absolute) * (1.0 + 0x1p-40));
      } else {
        Tally outside;
        outside.add(y.value, exact, y.error);
        INFO(outside.first_violation);
        REQUIRE(outside.violations == 0);
      }
    }
    INFO(tally.first_violation);
    CAPTURE(tally.utilisation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation >= f.least_utilisation);
  }
}

TEST_CASE("what is exact has no error, and what has no value an infinite one") {
  for (const Enclosed& y : {enclosed_exp(0.0), enclosed_cos(0.0)}) {
    CHECK(y.value == 1.0);
    CHECK(y.error == 0.0);
  }
  for (const auto f : {enclosed_expm1, enclosed_tanh, enclosed_sin, enclosed_erf}) {
    CHECK(f(0.0).value == 0.0);
    CHECK(f(0.0).error == 0.0);
  }
  for (const Function& f : functions()) {
    CAPTURE(std::string(f.name));
    for (const double x : {std::nan(""), infinity, -infinity}) CHECK(f.f(x).error == infinity);
  }
  CHECK(enclosed_exp(710.0).error == infinity);
}
