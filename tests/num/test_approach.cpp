#include <doctest/doctest.h>

#include <cmath>

#include "driftbound/num/ball.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/format.hpp"
#include "driftbound/num/gamma.hpp"
#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"
#include "support/approach.hpp"

// Numbers at which the theorems about numbers are attained.

using namespace driftbound;

TEST_CASE("numbers half way between two of a format are off by its unit roundoff (T-01)") {
  for (const FormatId id : {FormatId::fp32, FormatId::tf32, FormatId::bf16, FormatId::fp16, FormatId::fp8_e5m2}) {
    const Format& f = format(id);
    const double u = unit_roundoff(f, Rounding::nearest_even), x = 1.0 + u;
    CHECK_APPROACH("T-01", std::abs(round_to(x, f, Rounding::nearest_even) - x) / (u * x), 1.0 / (1.0 + u));
    const double tiny = f.smallest_subnormal / 2.0;
    CHECK_APPROACH(
        "T-01",
        std::abs(round_to(tiny, f, Rounding::nearest_even) - tiny) / underflow_unit(f, Rounding::nearest_even, false),
        1.0);
  }
}

TEST_CASE("directed operations and magnitudes go to the neighbour of a result that is no double (T-02, T-03)") {
  const double above = 1.0 + 0x1p-52, below = 1.0 - 0x1p-53, x = 1.0 + 0x1p-30;
  CHECK_EXACT("T-02", add_up(1.0, 0x1p-60) == above);
  CHECK_EXACT("T-02", add_down(1.0, 0x1p-60) == 1.0);
  CHECK_EXACT("T-02", sub_down(1.0, 0x1p-60) == below);
  CHECK_EXACT("T-02", mul_up(x, x) == 1.0 + 0x1p-29 + 0x1p-52);
  CHECK_EXACT("T-02", mul_down(x, x) == 1.0 + 0x1p-29);
  CHECK_EXACT("T-02", div_up(1.0, above) == 1.0 - 0x1p-52 + 0x1p-53);
  CHECK_EXACT("T-02", sqrt_down(above) == 1.0);
  CHECK_EXACT("T-02", sqrt_up(above) == above);
  CHECK_EXACT("T-03", (Magnitude(1.0) + Magnitude(0x1p-60)).value() == above);
  CHECK_EXACT("T-03", (Magnitude(x) * Magnitude(x)).value() == 1.0 + 0x1p-29 + 0x1p-52);
  CHECK_EXACT("T-03", sqrt_up(Magnitude(above)).value() == above);
}

TEST_CASE("roundings that all go one way are what gamma and growth allow (T-04, T-05)") {
  CHECK_EXACT("T-04", gamma(1, 0.5) == Magnitude(1.0));
  CHECK_EXACT("T-04", gamma(3, 0.125) == divide_up(Magnitude(0.375), 0.625));
  CHECK_EXACT("T-05", growth(2, 0.5) == Magnitude(1.25));
  CHECK_APPROACH("T-05", std::expm1(1000.0 * std::log1p(0x1p-24)) / growth(1000, 0x1p-24).value(), 1.0);
}

TEST_CASE("intervals end at results of their ends (T-06)") {
  CHECK_EXACT("T-06", Interval(1.0, 2.0) + Interval(-1.0, 3.0) == Interval(0.0, 5.0));
  CHECK_EXACT("T-06", Interval(1.0, 2.0) * Interval(-1.0, 3.0) == Interval(-2.0, 6.0));
  CHECK_EXACT("T-06", sqrt(Interval(4.0, 9.0)) == Interval(2.0, 3.0));
  CHECK_EXACT("T-06", exp(Interval(0.0, 0.0)) == Interval(1.0, 1.0));
  CHECK_EXACT("T-06", sin(Interval(1.0, 2.0)).upper() == 1.0);
}

TEST_CASE("balls reach as far as sums, differences and products of their ends (T-07)") {
  const double r = 0x1p-20;
  const Ball x{1.0, 0.0, Magnitude(r)}, y{2.0, 0.0, Magnitude(3.0 * r)};
  CHECK_EXACT("T-07", (x + y).radius == Magnitude(4.0 * r));
  CHECK_EXACT("T-07", (x - y).radius == Magnitude(4.0 * r));
  CHECK_APPROACH("T-07", ((1.0 + r) * (2.0 + 3.0 * r) - 2.0) / (x * y).radius.value(), 1.0);
}
