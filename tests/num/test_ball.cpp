#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "driftbound/num/ball.hpp"
#include "num/doubles.hpp"
#include "num/exact_value.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using namespace driftbound_tests;

namespace {

std::string text(const Ball& x) {
  return hex(x.hi) + " + " + hex(x.lo) + " +- " + hex(x.radius.value());
}

ExactValue midpoint(const Ball& x) {
  return ExactValue(x.hi) + x.lo;
}

bool holds(const Ball& ball, const ExactValue& x) {
  return !ball.is_finite() || abs(x - midpoint(ball)) <= ExactValue(ball.radius.value());
}

/// Midpoints with and without a low part, radii from 0 to far above the midpoint.
Ball random_ball(SpitefulDoubles& doubles, bool moderate) {
  const double hi = moderate ? doubles.next_within(30) : doubles.next();
  const double relative_low = doubles.between(0, 2) == 0 ? 0.0 : std::ldexp(doubles.next_within(1), -55);
  const double low = hi * relative_low;
  double radius = 0.0;
  if (doubles.between(0, 2) > 0) radius = std::abs(hi) * std::ldexp(1.0, -doubles.between(-2, 120));
  if (!moderate && doubles.between(0, 9) == 0) radius = std::abs(doubles.next());
  return {hi, low, Magnitude(std::isfinite(radius) ? radius : 0.0)};
}

/// A point of the ball, exactly: often one of its ends.
ExactValue point_of(const Ball& x, SpitefulDoubles& doubles) {
  const double t = doubles.between(0, 1) == 0 ? doubles.between(-1, 1) : std::ldexp(doubles.between(-1024, 1024), -10);
  return midpoint(x) + ExactValue(x.radius.value()) * t;
}

bool is_normalised(const Ball& x) {
  return !x.is_finite() || x.hi + x.lo == x.hi;
}

}  // namespace

TEST_CASE("ball operations contain the exact result of every pair of points") {
  SpitefulDoubles doubles(41);
  for (int i = 0, n = scaled_by_multiplier(20'000); i < n; ++i) {
    const Ball x = random_ball(doubles, i % 2 == 0);
    Ball y = random_ball(doubles, i % 2 == 0);
    if (i % 5 == 0) y = -x;
    CAPTURE(text(x));
    CAPTURE(text(y));
    const ExactValue s = point_of(x, doubles);
    const ExactValue t = point_of(y, doubles);
    REQUIRE(holds(x + y, s + t));
    REQUIRE(holds(x - y, s - t));
    REQUIRE(holds(x * y, s * t));
    REQUIRE(holds(-x, ExactValue(0.0) - s));
    REQUIRE(is_normalised(x + y));
    REQUIRE(is_normalised(x * y));
  }
}

TEST_CASE("ball operations on points add no more than the stated radius") {
  SpitefulDoubles doubles(43);
  double largest_of_product = 0.0;
  double largest_of_sum = 0.0;
  for (int i = 0, n = scaled_by_multiplier(20'000); i < n; ++i) {
    Ball x = random_ball(doubles, i % 2 == 0);
    Ball y = random_ball(doubles, i % 2 == 0);
    x.radius = y.radius = Magnitude();
    const double sum_of_magnitudes = std::abs(x.hi) + std::abs(y.hi);
    const Ball sum = x + y;
    if (sum.is_finite()) REQUIRE(sum.radius.value() <= 4.0 * 0x1p-106 * sum_of_magnitudes);
    const Ball product = x * y;
    const double magnitude = std::abs(x.hi * y.hi);
    if (product.is_finite()) REQUIRE(product.radius.value() <= 8.0 * 0x1p-106 * magnitude + 0x1p-1071);
    if (i % 2 == 0) {
      largest_of_product = std::max(largest_of_product, product.radius.value() / magnitude);
      largest_of_sum = std::max(largest_of_sum, sum.radius.value() / sum_of_magnitudes);
    }
  }
  CHECK(largest_of_product > 0x1p-106);
  CHECK(largest_of_sum > 0x1p-108);
}

TEST_CASE("sums and products of doubles that fit a double-double are exact balls") {
  const Ball tenth = exact_ball(0.1);
  const Ball square = tenth * tenth;
  CHECK(square.radius == Magnitude());
  CHECK((tenth + exact_ball(0x1p-80)).radius == Magnitude());
  CHECK((exact_ball(0.0) * exact_ball(5.0)).radius == Magnitude());
  CHECK((square - square).enclosure() == Interval(0.0));
  CHECK(tenth.enclosure() == Interval(0.1));
}

TEST_CASE("contains decides exactly") {
  SpitefulDoubles doubles(47);
  int inside = 0;
  for (int i = 0, n = scaled_by_multiplier(20'000); i < n; ++i) {
    const Ball x = random_ball(doubles, i % 2 == 0);
    double candidate = point_of(x, doubles).nearest();
    if (i % 3 == 0) candidate = std::nextafter(candidate, doubles.between(0, 1) == 0 ? infinity : -infinity);
    if (!(std::abs(candidate) + std::abs(x.hi) + x.radius.value() < 0x1p1022)) {
      REQUIRE(!x.contains(candidate));
      continue;
    }
    const bool expected = abs(ExactValue(candidate) - midpoint(x)) <= ExactValue(x.radius.value());
    inside += expected ? 1 : 0;
    REQUIRE_MESSAGE(x.contains(candidate) == expected, text(x) << " and " << hex(candidate));
  }
  CHECK(inside > 5000);
  // Found by a longer run: x - hi - radius overflows.
  const Ball at_the_end{0x1.fffffffffffffp+1023, -0x1.367c03e34cc0bp+969, Magnitude(0x1.ffffffffffffcp+1023)};
  CHECK(!at_the_end.contains(0x1.3c00000000003p+1022));
}

TEST_CASE("the enclosure of a ball holds it and is tight") {
  SpitefulDoubles doubles(53);
  for (int i = 0, n = scaled_by_multiplier(20'000); i < n; ++i) {
    const Ball x = random_ball(doubles, i % 2 == 0);
    const Interval enclosure = x.enclosure();
    if (!enclosure.is_finite()) continue;
    CAPTURE(text(x));
    const ExactValue lower = midpoint(x) - x.radius.value();
    const ExactValue upper = midpoint(x) + x.radius.value();
    REQUIRE(ExactValue(enclosure.lower()) <= lower);
    REQUIRE(upper <= ExactValue(enclosure.upper()));
    const double spacing = 0x1p-51 * (std::abs(x.hi) + x.radius.value()) + 0x1p-1073;
    REQUIRE(lower <= ExactValue(enclosure.lower()) + spacing);
    REQUIRE(ExactValue(enclosure.upper()) <= upper + spacing);
  }
}

TEST_CASE("error_of encloses the distance to every point of the ball") {
  SpitefulDoubles doubles(59);
  for (int i = 0, n = scaled_by_multiplier(20'000); i < n; ++i) {
    const Ball exact = random_ball(doubles, i % 2 == 0);
    double computed = i % 4 == 0 ? doubles.next() : point_of(exact, doubles).nearest();
    for (int steps = doubles.between(0, 3); steps > 0; --steps) computed = std::nextafter(computed, infinity);
    const Interval error = error_of(computed, exact);
    CAPTURE(text(exact));
    CAPTURE(hex(computed));
    if (!error.is_finite()) continue;
    const ExactValue distance = abs(ExactValue(computed) - point_of(exact, doubles));
    REQUIRE(ExactValue(error.lower()) <= distance);
    REQUIRE(distance <= ExactValue(error.upper()));
    REQUIRE(error.lower() >= 0.0);

    const ExactValue to_midpoint = abs(ExactValue(computed) - midpoint(exact));
    const ExactValue allowance = to_midpoint * 0x1p-50 + exact.radius.value() * (1.0 + 0x1p-50) + 0x1p-1072;
    REQUIRE(ExactValue(error.upper()) <= to_midpoint + allowance);
    REQUIRE(to_midpoint - allowance <= ExactValue(error.lower()));
    REQUIRE(abs(ExactValue(approx_error_of(computed, exact)) - to_midpoint) <= to_midpoint * 0x1p-51 + 0x1p-1073);
  }
}

TEST_CASE("the error of an exact result is 0, and of anything not finite the whole line") {
  CHECK(error_of(0.1, exact_ball(0.1)) == Interval(0.0));
  CHECK(error_of(1.0, Ball{1.0, 0x1p-70, Magnitude()}) == Interval(0x1p-70));
  CHECK(error_of(infinity, exact_ball(1.0)) == Interval::whole());
  CHECK(error_of(std::nan(""), exact_ball(1.0)) == Interval::whole());
  CHECK(error_of(1.0, exact_ball(infinity)) == Interval::whole());
  CHECK(!exact_ball(std::nan("")).is_finite());
  CHECK(!(exact_ball(1e308) * exact_ball(1e308)).is_finite());
  CHECK(!(exact_ball(1.7e308) + exact_ball(1.7e308)).is_finite());
  CHECK(exact_ball(infinity).contains(3.0));
  CHECK(exact_ball(infinity).enclosure() == Interval::whole());
  CHECK((exact_ball(infinity) * exact_ball(0.0)).contains(7.0));
}
