#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "driftbound/num/magnitude.hpp"
#include "num/doubles.hpp"
#include "num/exact_value.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using namespace driftbound_tests;

TEST_CASE("magnitude operations are the smallest doubles not below the exact result") {
  SpitefulDoubles doubles(3);
  for (int i = 0, n = scaled_by_multiplier(20'000); i < n; ++i) {
    const double x = std::abs(doubles.next());
    const double y = std::abs(doubles.next());
    CAPTURE(hex(x));
    CAPTURE(hex(y));
    const double sum = (Magnitude(x) + Magnitude(-y)).value();
    const double product = (Magnitude(x) * Magnitude(y)).value();
    const double difference = subtract_up(Magnitude(x), y).value();
    REQUIRE(ExactValue(x) + y <= ExactValue(sum));
    REQUIRE(ExactValue(x) * y <= ExactValue(product));
    REQUIRE(ExactValue(x) - y <= ExactValue(difference));
    if (sum > 0.0) REQUIRE(!(ExactValue(x) + y <= ExactValue(std::nextafter(sum, 0.0))));
    if (product > 0.0) REQUIRE(!(ExactValue(x) * y <= ExactValue(std::nextafter(product, 0.0))));
    if (difference > 0.0) REQUIRE(!(ExactValue(x) - y <= ExactValue(std::nextafter(difference, 0.0))));
    if (y > 0.0) {
      const double quotient = divide_up(Magnitude(x), y).value();
      if (std::isfinite(quotient)) REQUIRE(ExactValue(x) <= ExactValue(quotient) * y);
      if (quotient > 0.0) REQUIRE(!(ExactValue(x) <= ExactValue(std::nextafter(quotient, 0.0)) * y));
    }
    const double root = sqrt_up(Magnitude(x)).value();
    REQUIRE(ExactValue(x) <= ExactValue(root) * root);
    if (root > 0.0) REQUIRE(!(ExactValue(x) <= ExactValue(std::nextafter(root, 0.0)) * std::nextafter(root, 0.0)));
  }
}

TEST_CASE("what is not a number becomes an infinite magnitude") {
  const Magnitude zero;
  const Magnitude unbounded = Magnitude::infinite();
  CHECK(Magnitude(not_a_number) == unbounded);
  CHECK(Magnitude(-infinity) == unbounded);
  CHECK(!unbounded.is_finite());
  CHECK(zero * unbounded == unbounded);
  CHECK(unbounded + zero == unbounded);
  CHECK(divide_up(unbounded, infinity) == unbounded);
  CHECK(divide_up(zero, 0.0) == unbounded);
  CHECK(divide_up(zero, -1.0) == unbounded);
  CHECK(divide_up(zero, not_a_number) == unbounded);
  CHECK(divide_up(Magnitude(1.0), infinity) == zero);
  CHECK(subtract_up(unbounded, infinity) == unbounded);
  CHECK(subtract_up(Magnitude(1.0), not_a_number) == Magnitude(1.0));
  CHECK(subtract_up(Magnitude(1.0), -1.0) == Magnitude(1.0));
  CHECK(subtract_up(Magnitude(1.0), 2.0) == zero);
  CHECK(sqrt_up(unbounded) == unbounded);
}

TEST_CASE("magnitudes are ordered, and overflow is infinite") {
  CHECK(Magnitude(-2.0) > Magnitude(1.0));
  CHECK(Magnitude(1.0) < Magnitude::infinite());
  CHECK(Magnitude(-0.0) == Magnitude());
  const Magnitude largest(std::numeric_limits<double>::max());
  CHECK(largest.is_finite());
  CHECK(largest + Magnitude(1.0) == Magnitude::infinite());
  CHECK(largest * Magnitude(1.5) == Magnitude::infinite());
}
