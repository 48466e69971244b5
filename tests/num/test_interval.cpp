#include <doctest/doctest.h>
#include <mpfr.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/interval.hpp"
#include "num/doubles.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using namespace driftbound_tests;

namespace {

using MpfrUnary = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
using MpfrBinary = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

/// f at a point to 300 bits, and comparisons with it.
class Point {
public:
  Point() { mpfr_inits2(300, x_, y_, value_, mpfr_ptr(nullptr)); }
  ~Point() { mpfr_clears(x_, y_, value_, mpfr_ptr(nullptr)); }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;

  Point& set(MpfrUnary f, double x) {
    mpfr_set_d(x_, x, MPFR_RNDN);
    f(value_, x_, MPFR_RNDN);
    return *this;
  }
  Point& set(MpfrBinary f, double x, double y) {
    mpfr_set_d(x_, x, MPFR_RNDN);
    mpfr_set_d(y_, y, MPFR_RNDN);
    f(value_, x_, y_, MPFR_RNDN);
    return *this;
  }
  bool in(const Interval& enclosure) const {
    return mpfr_cmp_d(value_, enclosure.lower()) >= 0 && mpfr_cmp_d(value_, enclosure.upper()) <= 0;
  }
  double rounded(mpfr_rnd_t direction) const { return mpfr_get_d(value_, direction); }
  int sign() const { return mpfr_sgn(value_); }

private:
  mpfr_t x_, y_, value_;
};

struct Unary {
  std::string name;
  Interval (*enclosure)(const Interval&);
  MpfrUnary value;
  double domain_from;  // exclusive, except for sqrt
};

const Unary unary_functions[] = {
    {"sqrt", sqrt, mpfr_sqrt, 0.0},       {"exp", exp, mpfr_exp, -infinity},    {"expm1", expm1, mpfr_expm1, -infinity},
    {"log", log, mpfr_log, 0.0},          {"log1p", log1p, mpfr_log1p, -1.0},   {"tanh", tanh, mpfr_tanh, -infinity},
    {"sin", sin, mpfr_sin, -infinity},    {"cos", cos, mpfr_cos, -infinity},    {"erf", erf, mpfr_erf, -infinity},
    {"tan", tan, mpfr_tan, -infinity},    {"atan", atan, mpfr_atan, -infinity}, {"sinh", sinh, mpfr_sinh, -infinity},
    {"cosh", cosh, mpfr_cosh, -infinity},
};

struct Binary {
  std::string name;
  Interval (*enclosure)(Interval, const Interval&);
  MpfrBinary value;
};

const Binary binary_operations[] = {
    {"+", [](Interval x, const Interval& y) { return x + y; }, mpfr_add},
    {"-", [](Interval x, const Interval& y) { return x - y; }, mpfr_sub},
    {"*", [](Interval x, const Interval& y) { return x * y; }, mpfr_mul},
    {"/", [](Interval x, const Interval& y) { return x / y; }, mpfr_div},
    {"max", [](Interval x, const Interval& y) { return max(x, y); }, mpfr_max},
    {"min", [](Interval x, const Interval& y) { return min(x, y); }, mpfr_min},
};

double draw(SpitefulDoubles& doubles) {
  return doubles.between(0, 2) == 0 ? doubles.next() : doubles.next_within(8);
}

/// Points, narrow intervals, wide ones, and now and then one without a bound.
Interval random_interval(SpitefulDoubles& doubles) {
  const double x = draw(doubles);
  double y = x;
  switch (doubles.between(0, 5)) {
    case 0:
      break;
    case 1:
      y = std::nextafter(x, infinity);
      break;
    case 2:
      y = x + std::abs(x) * std::ldexp(1.0, -doubles.between(1, 50));
      break;
    case 3:
      y = x + doubles.next_within(3);
      break;
    default:
      y = draw(doubles);
  }
  if (!std::isfinite(y)) y = x;
  if (doubles.between(0, 99) == 0) return Interval(std::min(x, y), infinity);
  if (doubles.between(0, 99) == 0) return Interval(-infinity, std::max(x, y));
  return Interval(std::min(x, y), std::max(x, y));
}

std::vector<double> points_of(const Interval& x, SpitefulDoubles& doubles) {
  std::vector<double> points;
  for (const double candidate : {x.lower(), x.upper(), x.midpoint(), 0.0, draw(doubles)}) {
    if (std::isfinite(candidate) && x.contains(candidate)) points.push_back(candidate);
  }
  for (int i = 0; i < 2 && x.is_finite(); ++i) {
    const double t = static_cast<double>(doubles.bits() >> 11) * 0x1p-53;
    points.push_back(std::clamp(x.lower() * (1.0 - t) + x.upper() * t, x.lower(), x.upper()));
  }
  return points;
}

std::string text(const Interval& x) {
  return "[" + hex(x.lower()) + ", " + hex(x.upper()) + "]";
}

}  // namespace

TEST_CASE("interval functions contain the function at every point of the interval") {
  Point point;
  for (const Unary& f : unary_functions) {
    SpitefulDoubles doubles(17);
    for (int i = 0, n = scaled_by_multiplier(3000); i < n; ++i) {
      const Interval x = random_interval(doubles);
      const Interval enclosure = f.enclosure(x);
      for (const double t : points_of(x, doubles)) {
        if (t < f.domain_from) continue;
        point.set(f.value, t);
        REQUIRE_MESSAGE(point.in(enclosure), f.name << text(x) << " = " << text(enclosure) << " misses " << hex(t));
      }
    }
  }
}

TEST_CASE("interval operations contain the result for every pair of points") {
  Point point;
  for (const Binary& op : binary_operations) {
    SpitefulDoubles doubles(19);
    for (int i = 0, n = scaled_by_multiplier(4000); i < n; ++i) {
      const Interval x = random_interval(doubles);
      const Interval y = random_interval(doubles);
      const Interval enclosure = op.enclosure(x, y);
      for (const double s : points_of(x, doubles)) {
        for (const double t : points_of(y, doubles)) {
          if (op.value == mpfr_div && t == 0.0) continue;
          point.set(op.value, s, t);
          REQUIRE_MESSAGE(point.in(enclosure), text(x) << op.name << text(y) << " = " << text(enclosure) << " misses "
                                                       << hex(s) << ", " << hex(t));
        }
      }
    }
  }
}

TEST_CASE("the bounds of interval operations are attained up to one directed rounding") {
  Point point;
  for (const Binary& op : binary_operations) {
    SpitefulDoubles doubles(23);
    for (int i = 0, n = scaled_by_multiplier(4000); i < n; ++i) {
      const Interval x = random_interval(doubles);
      const Interval y = random_interval(doubles);
      if (!x.is_finite() || !y.is_finite() || (op.value == mpfr_div && y.contains(0.0))) continue;
      double lower = infinity;
      double upper = -infinity;
      for (const double s : {x.lower(), x.upper()}) {
        for (const double t : {y.lower(), y.upper()}) {
          lower = std::min(lower, point.set(op.value, s, t).rounded(MPFR_RNDD));
          upper = std::max(upper, point.rounded(MPFR_RNDU));
        }
      }
      // 300 bits round a + b where the exponents are far apart: one more unit there.
      const Interval enclosure = op.enclosure(x, y);
      REQUIRE_MESSAGE((enclosure.lower() == lower || enclosure.lower() == next_down(lower)), text(x)
                                                                                                 << op.name << text(y));
      REQUIRE_MESSAGE((enclosure.upper() == upper || enclosure.upper() == next_up(upper)), text(x)
                                                                                               << op.name << text(y));
    }
  }
}

TEST_CASE("the bounds of monotone interval functions are the directed values at the ends") {
  Point point;
  for (const Unary& f : unary_functions) {
    if (f.value == mpfr_sin || f.value == mpfr_cos || f.value == mpfr_tan || f.value == mpfr_cosh) continue;
    SpitefulDoubles doubles(29);
    for (int i = 0, n = scaled_by_multiplier(2000); i < n; ++i) {
      const Interval x = random_interval(doubles);
      if (!x.is_finite() || x.lower() <= f.domain_from) continue;
      const Interval enclosure = f.enclosure(x);
      // The largest double also where the value overflows MPFR's own range.
      const double lower =
          std::min(point.set(f.value, x.lower()).rounded(MPFR_RNDD), std::numeric_limits<double>::max());
      const double upper =
          std::max(point.set(f.value, x.upper()).rounded(MPFR_RNDU), std::numeric_limits<double>::lowest());
      REQUIRE_MESSAGE((enclosure.lower() == lower || enclosure.lower() == next_down(lower)), f.name << text(x));
      REQUIRE_MESSAGE((enclosure.upper() == upper || enclosure.upper() == next_up(upper)), f.name << text(x));
    }
  }
}

TEST_CASE("sin and cos reach 1 or -1 exactly where an extremum lies inside") {
  Point point;
  SpitefulDoubles doubles(31);
  for (int i = 0, n = scaled_by_multiplier(5000); i < n; ++i) {
    const double from = doubles.between(0, 2) == 0 ? doubles.next() : doubles.next_within(12);
    const double to = from + std::abs(doubles.next_within(2)) * 0.75;
    if (!(to - from < 3.0)) continue;
    const Interval x(from, to);

    // Shorter than pi: the slope of sin falls through 0 exactly if a maximum lies inside.
    const int sine_rises = point.set(mpfr_cos, from).sign();
    const int sine_rises_after = point.set(mpfr_cos, to).sign();
    const Interval sine = sin(x);
    const double sine_ends =
        std::max(point.set(mpfr_sin, from).rounded(MPFR_RNDU), point.set(mpfr_sin, to).rounded(MPFR_RNDU));
    CAPTURE(text(x));
    REQUIRE(sine.upper() == (sine_rises > 0 && sine_rises_after < 0 ? 1.0 : sine_ends));
    if (sine_rises < 0 && sine_rises_after > 0) REQUIRE(sine.lower() == -1.0);

    const int cosine_falls = point.set(mpfr_sin, from).sign();
    const int cosine_falls_after = point.set(mpfr_sin, to).sign();
    const Interval cosine = cos(x);
    const double cosine_ends =
        std::min(point.set(mpfr_cos, from).rounded(MPFR_RNDD), point.set(mpfr_cos, to).rounded(MPFR_RNDD));
    REQUIRE(cosine.lower() == (cosine_falls > 0 && cosine_falls_after < 0 ? -1.0 : cosine_ends));
    if (cosine_falls < 0 && cosine_falls_after > 0) REQUIRE(cosine.upper() == 1.0);
  }
  CHECK(sin(Interval(0.0, 7.0)) == Interval(-1.0, 1.0));
  CHECK(cos(Interval::whole()) == Interval(-1.0, 1.0));
  CHECK(cos(Interval(0.0)) == Interval(1.0));
  CHECK(sin(Interval(0.0)) == Interval(0.0));
  CHECK(cos(Interval(-1.0, 1.0)).upper() == 1.0);
  // The double that lies closest to a multiple of pi/2.
  const double hard = 6381956970095103.0 * 0x1p797;
  CHECK(cos(Interval(hard)).width().value() < 0x1p-100);
}

TEST_CASE("tan is enclosed by its values at the ends exactly where no pole lies between them") {
  Point point;
  SpitefulDoubles doubles(37);
  int poles = 0;
  for (int i = 0, n = scaled_by_multiplier(5000); i < n; ++i) {
    const double from = doubles.between(0, 2) == 0 ? doubles.next() : doubles.next_within(12);
    const double to = doubles.between(0, 3) == 0 ? from : from + std::abs(doubles.next_within(2)) * 0.75;
    if (!(to - from < 3.0)) continue;
    const Interval x(from, to);
    CAPTURE(text(x));
    // Shorter than pi: tan rises from one end to the other exactly if no pole lies between them.
    const bool rises = [&] {
      mpfr_t a, b;
      mpfr_inits2(1200, a, b, mpfr_ptr(nullptr));
      mpfr_set_d(a, from, MPFR_RNDN);
      mpfr_set_d(b, to, MPFR_RNDN);
      mpfr_tan(a, a, MPFR_RNDN);
      mpfr_tan(b, b, MPFR_RNDN);
      const bool result = mpfr_lessequal_p(a, b) != 0;
      mpfr_clears(a, b, mpfr_ptr(nullptr));
      return result;
    }();
    poles += rises ? 0 : 1;
    const Interval tangent = tan(x);
    if (!rises) REQUIRE(tangent == Interval::whole());
    if (!rises) continue;
    const double low = point.set(mpfr_tan, from).rounded(MPFR_RNDD);
    const double high = point.set(mpfr_tan, to).rounded(MPFR_RNDU);
    REQUIRE((tangent.lower() == low || tangent.lower() == next_down(low)));  // 300 bits round tan(x) to x for tiny x
    REQUIRE((tangent.upper() == high || tangent.upper() == next_up(high)));
  }
  CHECK(poles > 100);
  CHECK(tan(Interval(0.0)) == Interval(0.0));
  CHECK(tan(Interval(-1.5, 1.5)).is_finite());
  CHECK(tan(Interval(1.5, 1.6)) == Interval::whole());
  CHECK(tan(Interval(1.0, 1.0 + 3.1416)) == Interval::whole());
  // The double that lies closest to a multiple of pi/2, by about 2^-61.
  const double hard = 6381956970095103.0 * 0x1p797;
  CHECK(tan(Interval(hard)).is_finite());
  CHECK(tan(Interval(hard)).mignitude() > 0x1p60);
  CHECK(tan(Interval(std::nextafter(hard, 0.0), hard)) == Interval::whole());
}

namespace {

const double exponents[] = {0.0,  1.0, 2.0, 3.0,  7.0,       100.0, -1.0,  -2.0,
                            -3.0, 0.5, 1.5, -0.5, 1.0 / 3.0, 1e10,  -1e10, 1e300};

double power_at(double x, double p, mpfr_rnd_t direction) {
  mpfr_t value, exponent;
  mpfr_inits2(300, value, exponent, mpfr_ptr(nullptr));
  mpfr_set_d(value, x, MPFR_RNDN);
  mpfr_set_d(exponent, p, MPFR_RNDN);
  mpfr_pow(value, value, exponent, direction);
  const double result = mpfr_get_d(value, direction);
  mpfr_clears(value, exponent, mpfr_ptr(nullptr));
  return result;
}

}  // namespace

TEST_CASE("powers of intervals contain the power of every point and reach the extreme ones") {
  SpitefulDoubles doubles(41);
  for (const double p : exponents) {
    CAPTURE(p);
    const bool is_integer = std::trunc(p) == p;
    for (int i = 0, n = scaled_by_multiplier(600); i < n; ++i) {
      Interval x = random_interval(doubles);
      if (!is_integer && doubles.between(0, 7) != 0) x = abs(x);
      CAPTURE(text(x));
      const Interval y = pow(x, p);
      double least = infinity;
      double largest = -infinity;
      bool defined = true;
      std::vector<double> points = points_of(x, doubles);
      if (x.contains(0.0)) points.push_back(0.0);
      for (const double t : points) {
        if ((t < 0.0 && !is_integer) || (t == 0.0 && p < 0.0)) {
          defined = false;
          continue;
        }
        least = std::min(least, power_at(t, p, MPFR_RNDD));
        largest = std::max(largest, power_at(t, p, MPFR_RNDU));
        REQUIRE_MESSAGE((y.lower() <= power_at(t, p, MPFR_RNDD) && power_at(t, p, MPFR_RNDU) <= y.upper()), hex(t));
      }
      if (!defined) CHECK(y == Interval::whole());
      if (!defined || !x.is_finite()) continue;
      CHECK(y.lower() == least);
      CHECK(y.upper() == largest);
    }
  }
  CHECK(pow(Interval(-2.0, 3.0), 2.0) == Interval(0.0, 9.0));
  CHECK(pow(Interval(-2.0, 3.0), 3.0) == Interval(-8.0, 27.0));
  CHECK(pow(Interval(-2.0, -1.0), -3.0) == Interval(-1.0, -0.125));
  CHECK(pow(Interval(0.0, 1.0), -1.0) == Interval::whole());
  CHECK(pow(Interval(0.0, 4.0), 0.5) == Interval(0.0, 2.0));
  CHECK(pow(Interval::whole(), 0.0) == Interval(1.0));
  CHECK(pow(Interval(2.0), infinity) == Interval::whole());
  CHECK(pow(Interval(2.0), not_a_number) == Interval::whole());
  CHECK(pow(Interval(1.0, infinity), -2.0) == Interval(0.0, 1.0));
}

TEST_CASE("floor, ceil and sign of an interval reach from the value at one end to that at the other") {
  SpitefulDoubles doubles(43);
  for (int i = 0, n = scaled_by_multiplier(3000); i < n; ++i) {
    const Interval x = random_interval(doubles);
    for (const double t : points_of(x, doubles)) {
      CHECK(floor(x).contains(std::floor(t)));
      CHECK(ceil(x).contains(std::ceil(t)));
      CHECK(sign(x).contains(t > 0.0 ? 1.0 : t < 0.0 ? -1.0 : 0.0));
    }
  }
  CHECK(floor(Interval(-0.5, 1.999)) == Interval(-1.0, 1.0));
  CHECK(ceil(Interval(-0.5, 1.001)) == Interval(0.0, 2.0));
  CHECK(sign(Interval(0.0, 3.0)) == Interval(0.0, 1.0));
  CHECK(sign(Interval(-0.1, 3.0)) == Interval(-1.0, 1.0));
  CHECK(floor(Interval::whole()) == Interval::whole());
}

TEST_CASE("an operation that is undefined somewhere gives the whole line") {
  const Interval whole = Interval::whole();
  CHECK(Interval(1.0) / Interval(0.0) == whole);
  CHECK(Interval(1.0) / Interval(-1.0, 1.0) == whole);
  CHECK(Interval(1.0) / Interval(0.0, 1.0) == whole);
  CHECK(log(Interval(0.0, 1.0)) == whole);
  CHECK(log(Interval(-1.0, 1.0)) == whole);
  CHECK(log1p(Interval(-1.0, 1.0)) == whole);
  CHECK(sqrt(Interval(-0x1p-1074, 1.0)) == whole);
  CHECK(Interval(not_a_number) == whole);
  CHECK(Interval(infinity) == whole);
  CHECK_THROWS_AS(Interval(1.0, 0.0), InvalidArgument);
  CHECK_THROWS_AS(Interval(not_a_number, 0.0), InvalidArgument);
  CHECK_THROWS_AS(Interval(0.0, not_a_number), InvalidArgument);
  CHECK_THROWS_AS(Interval(infinity, infinity), InvalidArgument);
}

TEST_CASE("unbounded intervals stay intervals") {
  const Interval positive(0.0, infinity);
  const Interval whole = Interval::whole();
  CHECK(Interval(0.0) * whole == Interval(0.0));
  CHECK(positive * whole == whole);
  CHECK(positive * positive == positive);
  CHECK(Interval(1.0, infinity) / Interval(1.0, infinity) == positive);
  CHECK(Interval(1.0, infinity) / Interval(-infinity, -1.0) == Interval(-infinity, 0.0));
  CHECK(positive - positive == whole);
  CHECK(exp(whole) == positive);
  CHECK(exp(Interval(1000.0)) == Interval(std::numeric_limits<double>::max(), infinity));
  CHECK(exp(Interval(-1000.0)) == Interval(0.0, 0x1p-1074));
  CHECK(tanh(whole) == Interval(-1.0, 1.0));
  CHECK(erf(positive) == Interval(0.0, 1.0));
  CHECK(log(Interval(1.0, infinity)) == positive);
  CHECK(sqrt(positive) == positive);
  CHECK(abs(whole) == positive);
}

TEST_CASE("size and middle of an interval") {
  const Interval x(-3.0, 1.0);
  CHECK(x.magnitude() == Magnitude(3.0));
  CHECK(x.mignitude() == 0.0);
  CHECK(Interval(2.0, 5.0).mignitude() == 2.0);
  CHECK(Interval(-5.0, -2.0).mignitude() == 2.0);
  CHECK(x.width() == Magnitude(4.0));
  CHECK(x.midpoint() == -1.0);
  CHECK(Interval(0x1p-1074).midpoint() == 0x1p-1074);
  CHECK(Interval(1e308, 1.7e308).midpoint() == 1.35e308);
  CHECK(Interval::whole().midpoint() == 0.0);
  CHECK(std::isfinite(Interval(0.0, infinity).midpoint()));
  CHECK(!Interval(0.0, infinity).width().is_finite());
  CHECK(abs(x) == Interval(0.0, 3.0));
  CHECK(abs(Interval(-3.0, -1.0)) == Interval(1.0, 3.0));
  CHECK(hull(x, Interval(5.0)) == Interval(-3.0, 5.0));
  CHECK(-x == Interval(-1.0, 3.0));
  CHECK(x.contains(Interval(0.0, 1.0)));
  CHECK(!x.contains(Interval(0.0, 1.5)));
  CHECK(!x.contains(not_a_number));
}

TEST_CASE("interval operations are inclusion monotone") {
  const bool holds = rc::check("interval operations are inclusion monotone", [] {
    const auto nested = [] {
      std::vector<double> ends = *rc::gen::container<std::vector<double>>(4, rc::gen::arbitrary<double>());
      for (double& end : ends) RC_PRE(std::isfinite(end));
      std::sort(ends.begin(), ends.end());
      return std::pair(Interval(ends[1], ends[2]), Interval(ends[0], ends[3]));
    };
    const auto [x, wider_x] = nested();
    const auto [y, wider_y] = nested();
    for (const Binary& op : binary_operations) RC_ASSERT(op.enclosure(wider_x, wider_y).contains(op.enclosure(x, y)));
    for (const Unary& f : unary_functions) RC_ASSERT(f.enclosure(wider_x).contains(f.enclosure(x)));
  });
  CHECK(holds);
}
