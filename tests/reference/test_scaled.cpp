#include <doctest/doctest.h>

#include "mp_support.hpp"
#include "reference/mpfr_range.hpp"
#include "reference/scaled.hpp"

using namespace driftbound;
using mp::real;
using mp::Real400;

namespace {

Scaled random_scaled(networks::Maker& make) {
  if (make.chance(0.05)) return {};
  const std::int64_t exponent = static_cast<std::int64_t>(make.below(600)) - 300;
  return Scaled::of(std::fabs(make.number()) + 0x1p-40, make.chance(0.5) ? exponent : exponent / 30);
}

}  // namespace

TEST_CASE("scaled numbers: every operation lies on its side of the exact result and within 2^-49 of it") {
  const MpfrRange range;
  networks::Maker make(1, networks::Scale::ordinary);
  const Real400 close = 1 + ldexp(Real400(1), -49);
  for (int i = 0; i < 20000 * networks::multiplier(); ++i) {
    const Scaled a = random_scaled(make), b = random_scaled(make);
    const Real400 x = real(a), y = real(b);
    CHECK(real(add_up(a, b)) >= x + y);
    CHECK(real(add_up(a, b)) <= (x + y) * close);
    CHECK(real(mul_up(a, b)) >= x * y);
    CHECK(real(mul_up(a, b)) <= x * y * close);
    if (!b.is_zero()) {
      CHECK(real(div_up(a, b)) >= x / y);
      CHECK(real(div_up(a, b)) <= x / y * close);
    }
    CHECK(real(sqrt_down(a)) <= sqrt(x));
    CHECK(real(sqrt_down(a)) * close >= sqrt(x));
    CHECK(real(sub_down(a, b)) <= (x > y ? Real400(x - y) : Real400(0)));
    if (x > 2 * y) CHECK(real(sub_down(a, b)) * close * close >= x - y);
    CHECK((a < b) == (x < y));
    CHECK((a == b) == (x == y));
    if (a < Scaled::of(600.0)) CHECK(real(expm1_up(a)) >= exp(x) - 1);
    if (a < Scaled::of(0x1p-50)) CHECK(real(expm1_up(a)) <= x * close * close);
  }
}

TEST_CASE("scaled numbers: upper bounds of e^t at most four times too large") {
  const MpfrRange range;
  networks::Maker make(2, networks::Scale::ordinary);
  for (int i = 0; i < 2000; ++i) {
    const double t = std::ldexp(make.number(), static_cast<int>(make.below(14)) - 2);
    CHECK(real(exp_up(t)) >= exp(Real400(t)));
    CHECK(real(exp_up(t)) <= 4 * exp(Real400(t) * (1 + Real400(t > 0 ? 1 : -1) / 50000)));
  }
}

TEST_CASE("scaled numbers: conversions keep their side, at the ends of the ranges too") {
  const MpfrRange range;
  networks::Maker make(3, networks::Scale::wide);
  for (int i = 0; i < 5000; ++i) {
    const Scaled x = Scaled::of(std::fabs(make.number()) + 1e-300, -static_cast<std::int64_t>(make.below(1200)));
    CHECK(Real400(x.to_double_up()) >= real(x));
    CHECK(Real400(x.to_double_down()) <= real(x));
  }
  CHECK(Scaled::power_of_two(-5000).to_double_up() == 0x1p-1074);
  CHECK(Scaled::power_of_two(-5000).to_double_down() == 0.0);
  CHECK(std::isinf(Scaled::power_of_two(5000).to_double_up()));
  CHECK(Scaled::of(std::nan("")) == Scaled::infinite());
  CHECK(Scaled::power_of_two(Scaled::largest_exponent + 10) == Scaled::infinite());
  CHECK(Scaled::power_of_two(-Scaled::largest_exponent - 10) == Scaled::smallest());
  CHECK(mul_up(Scaled::smallest(), Scaled::smallest()) == Scaled::smallest());
  CHECK(Scaled::smallest() < Scaled::infinite());
  CHECK(Scaled() < Scaled::smallest());
}
