#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "driftbound/num/format.hpp"
#include "num/doubles.hpp"
#include "num/exact_rounding.hpp"
#include "num/format_draws.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using namespace driftbound_tests;

namespace {

/// The magnitudes of an IEEE-like format in the order of their codes, ending with the number that would follow the
/// largest.
std::vector<double> decoded_magnitudes(int exponent_bits, int fraction_bits, int codes) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> values;
  for (int code = 0; code <= codes; ++code) {
    const int field = code >> fraction_bits;
    const int fraction = code & ((1 << fraction_bits) - 1);
    const int hidden = field == 0 ? 0 : 1 << fraction_bits;
    values.push_back(std::ldexp(hidden + fraction, (field == 0 ? 1 : field) - bias - fraction_bits));
  }
  return values;
}

struct Between {
  double below;
  double above;
  bool below_is_even;
  bool above_overflows;
};

/// Checks both signs of a magnitude x with below <= x < above; `position` is -1, 0, 1 as x is below, at or above the
/// midpoint.
void check_between(const Format& f, const Between& gap, double x, int position) {
  const double beyond = f.has_infinity ? infinity : not_a_number;
  const double above = gap.above_overflows ? beyond : gap.above;
  for (const Rounding rounding : all_roundings) {
    for (const double sign : {1.0, -1.0}) {
      const bool exact = x == gap.below;
      const bool away =
          !exact && (rounding == Rounding::nearest_even   ? position > 0 || (position == 0 && !gap.below_is_even)
                     : rounding == Rounding::nearest_away ? position >= 0
                     : rounding == Rounding::up           ? sign > 0
                     : rounding == Rounding::down         ? sign < 0
                                                          : false);
      const double expected = sign * (away ? above : gap.below);
      const double rounded = round_to(sign * x, f, rounding);
      if (!same(rounded, expected)) {
        FAIL(f.name << " rounding " << static_cast<int>(rounding) << " of " << hex(sign * x) << " gives "
                    << hex(rounded) << " instead of " << hex(expected));
      }
    }
  }
}

void check_all_neighbours(FormatId id, const std::vector<double>& magnitudes) {
  const Format& f = format(id);
  for (std::size_t code = 0; code + 1 < magnitudes.size(); ++code) {
    const Between gap{magnitudes[code], magnitudes[code + 1], code % 2 == 0, code + 2 == magnitudes.size()};
    const double middle = (gap.below + gap.above) / 2.0;
    check_between(f, gap, gap.below, -1);
    check_between(f, gap, std::nextafter(gap.below, infinity), -1);
    check_between(f, gap, std::nextafter(middle, 0.0), -1);
    check_between(f, gap, middle, 0);
    check_between(f, gap, std::nextafter(middle, infinity), 1);
    check_between(f, gap, std::nextafter(gap.above, 0.0), 1);
    REQUIRE(representable(gap.below, f));
    REQUIRE(!representable(middle, f));
    REQUIRE(ulp(gap.below, f) == gap.above - gap.below);
  }
  CHECK(f.largest == magnitudes[magnitudes.size() - 2]);
  CHECK(f.smallest_subnormal == magnitudes[1]);
}

}  // namespace

TEST_CASE("a format holds all of another where each of its edges and every number of one digit less is there") {
  const auto edges = [](const Format& f) {
    const double last = std::ldexp(1.0, 1 - f.precision), fully = 2.0 - last;
    return std::vector<double>{f.largest,
                               f.smallest_subnormal,
                               f.smallest_normal * fully,
                               f.smallest_normal,
                               1.0 + last,
                               std::ldexp(1.0 + last, f.max_exponent - 1),
                               std::ldexp(fully, f.min_exponent + 1)};
  };
  int held = 0;
  for (const FormatId wide : all_formats) {
    for (const FormatId narrow : all_formats) {
      CAPTURE(format(wide).name);
      CAPTURE(format(narrow).name);
      const std::vector<double> numbers = edges(format(narrow));
      const bool all =
          std::all_of(numbers.begin(), numbers.end(), [&](double x) { return representable(x, format(wide)); });
      CHECK(holds_all_of(format(wide), format(narrow)) == all);
      held += all ? 1 : 0;
    }
  }
  CHECK(held == 26);
}

TEST_CASE("round_to agrees with exact rounding in every format and rounding") {
  for (const FormatId id : all_formats) {
    const Format& f = format(id);
    SpitefulDoubles doubles(20261121 + static_cast<unsigned>(id));
    for (int i = 0, n = scaled_by_multiplier(100'000); i < n; ++i) {
      const double x = draw_for(f, doubles);
      const ExactRounding exact(x, f);
      for (const Rounding rounding : all_roundings) {
        const double rounded = round_to(x, f, rounding);
        if (!same(rounded, exact(rounding))) {
          FAIL(f.name << " rounding " << static_cast<int>(rounding) << " of " << hex(x) << " gives " << hex(rounded)
                      << " instead of " << hex(exact(rounding)));
        }
      }
    }
  }
}

TEST_CASE("round_to is right at and beside every fp16, bf16 and fp8 value and every midpoint") {
  check_all_neighbours(FormatId::fp16, decoded_magnitudes(5, 10, 0x7c00));
  check_all_neighbours(FormatId::bf16, decoded_magnitudes(8, 7, 0x7f80));
  check_all_neighbours(FormatId::fp8_e5m2, decoded_magnitudes(5, 2, 0x7c));
  check_all_neighbours(FormatId::fp8_e4m3, decoded_magnitudes(4, 3, 0x7f));
}

TEST_CASE("round_to fp32 is the processor's conversion") {
  SpitefulDoubles doubles(7);
  const Format& f = format(FormatId::fp32);
  for (int i = 0, n = scaled_by_multiplier(100'000); i < n; ++i) {
    const double x = draw_for(f, doubles);
    if (std::abs(x) > 3.5e38) continue;
    const volatile float converted = static_cast<float>(x);
    REQUIRE_MESSAGE(same(round_to(x, f, Rounding::nearest_even), static_cast<double>(converted)), hex(x));
  }
}

TEST_CASE("infinities, NaN and the sign of zero survive round_to as far as the format has them") {
  for (const FormatId id : all_formats) {
    const Format& f = format(id);
    for (const Rounding rounding : all_roundings) {
      CHECK(std::isnan(round_to(not_a_number, f, rounding)));
      CHECK(same(round_to(0.0, f, rounding), 0.0));
      CHECK(same(round_to(-0.0, f, rounding), -0.0));
      CHECK(same(round_to(infinity, f, rounding), f.has_infinity ? infinity : not_a_number));
      CHECK(same(round_to(-infinity, f, rounding), f.has_infinity ? -infinity : not_a_number));
    }
    CHECK(representable(not_a_number, f));
    CHECK(representable(-0.0, f));
    CHECK(representable(infinity, f) == f.has_infinity);
  }
  CHECK(same(round_to(-0x1p-1074, format(FormatId::fp16), Rounding::nearest_even), -0.0));
  CHECK(same(round_to(-0x1p-1074, format(FormatId::fp16), Rounding::up), -0.0));
  CHECK(round_to(-0x1p-1074, format(FormatId::fp16), Rounding::down) == -0x1p-24);
}

TEST_CASE("overflow starts where IEEE 754 and the OCP fp8 formats say") {
  const Format& half = format(FormatId::fp16);
  CHECK(round_to(0x1.ffdffffffffffp15, half, Rounding::nearest_even) == 65504.0);
  CHECK(round_to(65520.0, half, Rounding::nearest_even) == infinity);
  CHECK(round_to(1e300, half, Rounding::toward_zero) == 65504.0);
  CHECK(round_to(-1e300, half, Rounding::up) == -65504.0);
  CHECK(round_to(-65505.0, half, Rounding::down) == -infinity);
  const Format& e4m3 = format(FormatId::fp8_e4m3);
  CHECK(round_to(464.0, e4m3, Rounding::nearest_even) == 448.0);
  CHECK(std::isnan(round_to(464.0, e4m3, Rounding::nearest_away)));
  CHECK(std::isnan(round_to(std::nextafter(464.0, 500.0), e4m3, Rounding::nearest_even)));
  CHECK(round_to(480.0, e4m3, Rounding::toward_zero) == 448.0);
  CHECK(round_to(0x1.ffefffffffffp127, format(FormatId::tf32), Rounding::nearest_even) == infinity);
  CHECK(round_to(0x1.ffdp127, format(FormatId::tf32), Rounding::nearest_even) == 0x1.ffcp127);
}

TEST_CASE("the table of formats is consistent with itself") {
  for (const FormatId id : all_formats) {
    const Format& f = format(id);
    CAPTURE(f.name);
    CHECK(f.id == id);
    CHECK(find_format(f.name) == id);
    CHECK(f.smallest_normal == std::ldexp(1.0, f.min_exponent));
    CHECK(f.smallest_subnormal == std::ldexp(1.0, f.min_exponent - f.precision + 1));
    CHECK(std::ilogb(f.largest) == f.max_exponent);
    CHECK(representable(f.largest, f));
    CHECK(unit_roundoff(f, Rounding::nearest_even) == std::ldexp(1.0, -f.precision));
    CHECK(unit_roundoff(f, Rounding::up) == ulp(1.0, f));
    CHECK(underflow_unit(f, Rounding::down, false) == f.smallest_subnormal);
    CHECK(underflow_unit(f, Rounding::nearest_even, true) == f.smallest_normal);
    if (id != FormatId::fp8_e4m3) CHECK(f.largest == 2.0 * (std::ldexp(1.0, f.max_exponent) - ulp(f.largest, f) / 2.0));
  }
  CHECK(underflow_unit(format(FormatId::fp32), Rounding::nearest_away, false) == 0x1p-150);
  CHECK(underflow_unit(format(FormatId::fp64), Rounding::nearest_even, false) == 0x1p-1074);
  CHECK(!find_format("fp7").has_value());
}

TEST_CASE("the error of round_to is within unit_roundoff and underflow_unit, and comes close") {
  for (const FormatId id : all_formats) {
    const Format& f = format(id);
    if (id == FormatId::fp64) continue;
    for (const Rounding rounding : all_roundings) {
      SpitefulDoubles doubles(11);
      double closest_normal = 0.0;
      double closest_subnormal = 0.0;
      for (int i = 0; i < 5000; ++i) {
        const double x = draw_for(f, doubles);
        const double rounded = round_to(x, f, rounding);
        if (!std::isfinite(rounded) || std::abs(x) > f.largest) continue;
        const double error = std::abs(rounded - x);
        const bool is_normal = std::abs(x) >= f.smallest_normal;
        const double bound = is_normal ? unit_roundoff(f, rounding) * std::abs(x) : underflow_unit(f, rounding, false);
        REQUIRE_MESSAGE(error <= bound, f.name << " " << hex(x));
        double& closest = is_normal ? closest_normal : closest_subnormal;
        if (bound > 0.0) closest = std::max(closest, error / bound);
      }
      CHECK(closest_normal > 0.75);
      CHECK(closest_subnormal > 0.9);
    }
  }
}

TEST_CASE("round_to is monotone, idempotent and odd") {
  const bool holds = rc::check("round_to is monotone, idempotent and odd", [](double x, double y) {
    const Format& f =
        format(*rc::gen::elementOf(std::vector<FormatId>(std::begin(all_formats), std::end(all_formats))));
    const auto rounding = *rc::gen::element(Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero);
    RC_PRE(std::isfinite(x) && std::isfinite(y));
    const double fx = round_to(x, f, rounding);
    const double fy = round_to(y, f, rounding);
    RC_ASSERT(same(round_to(fx, f, rounding), fx));
    RC_ASSERT(same(round_to(-x, f, rounding), -fx));
    RC_ASSERT(std::isnan(fx) || std::isnan(fy) || !(x <= y) || fx <= fy);
  });
  CHECK(holds);
}
