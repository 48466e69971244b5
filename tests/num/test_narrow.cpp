#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <ios>
#include <limits>
#include <string>

#include "driftbound/num/format.hpp"
#include "num/format_draws.hpp"
#include "num/narrow.inl.hpp"
#include "support/tally.hpp"

namespace {

using namespace driftbound;
using driftbound_tests::SpitefulDoubles;

struct Pair {
  narrow::Layout layout;
  FormatId id;
};
const Pair pairs[] = {{narrow::fp32, FormatId::fp32},
                      {narrow::tf32, FormatId::tf32},
                      {narrow::bf16, FormatId::bf16},
                      {narrow::fp16, FormatId::fp16}};

double by_format(double x, FormatId id) {
  return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : round_to(x, format(id), Rounding::nearest_even);
}

bool same_bits(double x, double y) {
  return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
}

void check_double(double x, const Pair& pair) {
  if (!same_bits(narrow::rounded(x, pair.layout), by_format(x, pair.id))) {
    FAIL_CHECK(std::hexfloat << x << " in " << format(pair.id).name << ": " << narrow::rounded(x, pair.layout)
                             << " instead of " << by_format(x, pair.id));
  }
}

void check_float(float x, const Pair& pair) {
  const float computed = narrow::rounded(x, pair.layout);
  const auto expected = static_cast<float>(by_format(double{x}, pair.id));
  if (std::bit_cast<std::uint32_t>(computed) != std::bit_cast<std::uint32_t>(expected)) {
    FAIL_CHECK(std::hexfloat << x << " in " << format(pair.id).name << ": " << computed << " instead of " << expected);
  }
}

/// x and its neighbours, as double and as float.
void check_around(double x, const Pair& pair) {
  for (const double y : {x, std::nextafter(x, -INFINITY), std::nextafter(x, INFINITY)}) check_double(y, pair);
  const auto narrow = static_cast<float>(x);
  for (const float y : {narrow, std::nextafter(narrow, -INFINITY), std::nextafter(narrow, INFINITY)}) {
    check_float(y, pair);
  }
}

TEST_CASE("layouts describe the formats that they are named after") {
  for (const Pair& pair : pairs) {
    const Format& f = format(pair.id);
    CHECK(pair.layout.precision == f.precision);
    CHECK(pair.layout.min_exponent == f.min_exponent);
    CHECK(pair.layout.largest == f.largest);
  }
}

TEST_CASE("rounding by integers is round_to, for random numbers, ties and what lies beside them") {
  SpitefulDoubles doubles(61);
  const int draws = 300000 * test_multiplier();
  for (const Pair& pair : pairs) {
    for (int i = 0; i < draws; ++i) {
      const double x = driftbound_tests::draw_for(format(pair.id), doubles);
      check_double(x, pair);
      check_float(static_cast<float>(x), pair);
    }
  }
}

TEST_CASE("the edges of every format round as round_to rounds them") {
  for (const Pair& pair : pairs) {
    const Format& f = format(pair.id);
    const double above = f.largest + ulp(f.largest, f) / 2;  // from here on infinity
    for (const double edge : {0.0, f.smallest_subnormal / 2, f.smallest_subnormal, 1.5 * f.smallest_subnormal,
                              f.smallest_normal - f.smallest_subnormal / 2, f.smallest_normal, f.largest, above}) {
      check_around(edge, pair);
      check_around(-edge, pair);
    }
    for (const double special : {HUGE_VAL, -HUGE_VAL, std::nan("7"), 0x1p-1074, -0x1p-1022, 0x1.fffffffffffffp+1023}) {
      check_double(special, pair);
      check_float(static_cast<float>(special), pair);
    }
  }
}

/// What 16 bits stand for, by the definition of the format.
double meaning(std::uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

template <class ToBits, class FromBits>
void check_all_16_bits(int fraction_bits, std::uint16_t quiet_nan, const Pair& pair, ToBits to_bits,
                       FromBits from_bits) {
  for (unsigned pattern = 0; pattern <= 0xffff; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const double value = meaning(bits, fraction_bits);
    if (std::isnan(value)) {
      CHECK(std::isnan(from_bits(bits)));
      CHECK(to_bits(from_bits(bits)) == quiet_nan);
      continue;
    }
    if (!same_bits(from_bits(bits), value) || to_bits(static_cast<float>(value)) != bits) {
      FAIL_CHECK("pattern " << pattern << " of " << format(pair.id).name << " means " << value);
    }
    if (std::isinf(value)) continue;
    const float up = static_cast<float>(value + ulp(value, format(pair.id)) / 2);  // exact: a tie, or above
    for (const float x : {std::nextafter(up, -INFINITY), up, std::nextafter(up, INFINITY)}) {
      check_float(x, pair);
      const float rounded = from_bits(to_bits(x));
      if (!same_bits(rounded, by_format(x, pair.id))) {
        FAIL_CHECK(std::hexfloat << x << " narrowed to " << format(pair.id).name << " is " << rounded);
      }
    }
  }
}

TEST_CASE("every bfloat16, and every tie between two, narrows as round_to rounds") {
  check_all_16_bits(7, 0x7fc0, pairs[2], narrow::to_bf16, narrow::from_bf16);
}

TEST_CASE("every float16, and every tie between two, narrows as round_to rounds") {
  check_all_16_bits(10, 0x7e00, pairs[3], narrow::to_fp16, narrow::from_fp16);
}

}  // namespace
