#include <doctest/doctest.h>
#include <mpfr.h>

#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "driftbound/num/directed.hpp"
#include "num/doubles.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using namespace driftbound_tests;

namespace {

constexpr double largest = std::numeric_limits<double>::max();
constexpr double smallest = std::numeric_limits<double>::denorm_min();

/// MPFR's correctly rounded result at 53 bits; then rounding to the doubles in the same direction is the IEEE result.
class Oracle {
public:
  Oracle() { mpfr_inits2(53, a_, b_, result_, mpfr_ptr(nullptr)); }
  ~Oracle() { mpfr_clears(a_, b_, result_, mpfr_ptr(nullptr)); }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  double operator()(char op, double a, double b, mpfr_rnd_t direction) {
    mpfr_set_d(a_, a, MPFR_RNDN);
    mpfr_set_d(b_, b, MPFR_RNDN);
    switch (op) {
      case '+':
        mpfr_add(result_, a_, b_, direction);
        break;
      case '-':
        mpfr_sub(result_, a_, b_, direction);
        break;
      case '*':
        mpfr_mul(result_, a_, b_, direction);
        break;
      case '/':
        mpfr_div(result_, a_, b_, direction);
        break;
      default:
        mpfr_sqrt(result_, a_, direction);
    }
    return mpfr_get_d(result_, direction);
  }

private:
  mpfr_t a_, b_, result_;
};

struct Operation {
  char name;
  std::function<double(double, double)> down;
  std::function<double(double, double)> up;
};

const Operation operations[] = {
    {'+', add_down, add_up},
    {'-', sub_down, sub_up},
    {'*', mul_down, mul_up},
    {'/', div_down, div_up},
    {'q', [](double a, double) { return sqrt_down(a); }, [](double a, double) { return sqrt_up(a); }},
};

bool equal_or_both_nan(double x, double y) {
  return x == y || (std::isnan(x) && std::isnan(y));
}

void check(Oracle& oracle, const Operation& op, double a, double b) {
  const double down = op.down(a, b);
  const double up = op.up(a, b);
  const double true_down = oracle(op.name, a, b, MPFR_RNDD);
  const double true_up = oracle(op.name, a, b, MPFR_RNDU);
  if (!equal_or_both_nan(down, true_down) || !equal_or_both_nan(up, true_up)) {
    FAIL(std::string(1, op.name) << " of " << hex(a) << ", " << hex(b) << ": [" << hex(down) << ", " << hex(up)
                                 << "] instead of [" << hex(true_down) << ", " << hex(true_up) << "]");
  }
}

/// Operands that make the operation cancel, or land at the ends of the range.
void provoke(char op, SpitefulDoubles& doubles, double& a, double& b) {
  if (a == 0.0) a = 1.0;
  const int exponent = doubles.between(0, 1) == 0 ? doubles.between(-1080, -950) : doubles.between(1020, 1024);
  if (op == '*') b = std::ldexp(1.0 + doubles.next_within(1) / 4.0, exponent - std::ilogb(a));
  if (op == '/') a = std::ldexp(b, doubles.between(-1080, 1024));
  if (!std::isfinite(b)) b = 1.0;
}

}  // namespace

TEST_CASE("directed operations are the directed IEEE results on spiteful operands") {
  Oracle oracle;
  for (const Operation& op : operations) {
    SpitefulDoubles doubles(static_cast<unsigned char>(op.name));
    for (int i = 0, n = scaled_by_multiplier(200'000); i < n; ++i) {
      double a = doubles.next();
      double b = doubles.next();
      if (i % 2 == 0) provoke(op.name, doubles, a, b);
      check(oracle, op, a, b);
    }
  }
}

TEST_CASE("directed operations are the directed IEEE results on all pairs of extreme operands") {
  Oracle oracle;
  const double extremes[] = {0.0,
                             -0.0,
                             smallest,
                             -smallest,
                             3 * smallest,
                             0x1p-1022,
                             -0x1.fffffffffffffp-1023,
                             0x1p-970,
                             0x1.0000000000001p-960,
                             0x1p-537,
                             0x1.5p-538,
                             -0x1p-485,
                             0x1p-53,
                             0.5,
                             1.0,
                             -1.0,
                             3.0,
                             0x1.fffffffffffffp0,
                             0x1p53,
                             0x1p500,
                             0x1.8p511,
                             0x1p1000,
                             0x1p1023,
                             largest,
                             -largest,
                             infinity,
                             -infinity,
                             not_a_number};
  for (const Operation& op : operations) {
    for (const double a : extremes) {
      for (const double b : extremes) check(oracle, op, a, b);
    }
  }
}

TEST_CASE("directed operations enclose the result in every rounding mode (T-02)") {
  Oracle oracle;
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const Operation& op : operations) {
      SpitefulDoubles doubles(static_cast<unsigned char>(op.name));
      for (int i = 0, n = scaled_by_multiplier(50'000); i < n; ++i) {
        double a = doubles.next();
        double b = doubles.next();
        if (i % 2 == 0) provoke(op.name, doubles, a, b);
        if (!std::isfinite(a) || !std::isfinite(b)) continue;
        std::fesetround(mode);
        const double down = op.down(a, b), up = op.up(a, b);
        std::fesetround(FE_TONEAREST);
        const double true_down = oracle(op.name, a, b, MPFR_RNDD), true_up = oracle(op.name, a, b, MPFR_RNDU);
        if (std::isnan(true_down)) continue;
        CAPTURE(mode);
        CAPTURE(op.name);
        CAPTURE(hex(a));
        CAPTURE(hex(b));
        REQUIRE(down <= true_down);
        REQUIRE(up >= true_up);
      }
    }
  }
}

TEST_CASE("next_up and next_down are the neighbours") {
  SpitefulDoubles doubles(5);
  for (int i = 0; i < 10'000; ++i) {
    const double x = doubles.next();
    REQUIRE(next_up(x) == std::nextafter(x, infinity));
    REQUIRE(next_down(x) == std::nextafter(x, -infinity));
  }
  CHECK(next_up(-0.0) == smallest);
  CHECK(next_down(0.0) == -smallest);
  CHECK(next_up(largest) == infinity);
  CHECK(next_up(-infinity) == -infinity);
  CHECK(next_down(infinity) == infinity);
  CHECK(std::isnan(next_up(not_a_number)));
}
