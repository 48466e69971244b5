#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "driftbound/num/format.hpp"
#include "num/rounding_decisions.hpp"

namespace driftbound {
namespace {

/// 2^exponent for -1022 <= exponent <= 1023.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// floor(log2 |x|) of a normal double; something below every format's min_exponent for a subnormal one.
int binade(double x) {
  return static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff) - 1023;
}

/// Whether the magnitude whose significand is whole + fraction, 0 < fraction < 1, becomes whole + 1.
bool goes_away(std::int64_t whole, double fraction, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
    case Rounding::nearest_away:
      if (fraction != 0.5) return fraction > 0.5;
      return num::theorems::tie_goes_away(whole % 2 != 0, rounding);
    case Rounding::toward_zero:
      return false;
    case Rounding::up:
      return !negative;
    case Rounding::down:
      return negative;
  }
  return false;
}

/// The magnitude of a result beyond the largest number.
double overflowed(const Format& f, bool negative, Rounding rounding) {
  const bool stays = rounding == Rounding::toward_zero || rounding == (negative ? Rounding::up : Rounding::down);
  if (stays) return f.largest;
  return f.has_infinity ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double round_to(double x, const Format& f, Rounding rounding) {
  if (f.id == FormatId::fp64 || x == 0.0 || std::isnan(x)) return x;
  if (std::isinf(x)) return f.has_infinity ? x : std::numeric_limits<double>::quiet_NaN();

  const bool negative = std::signbit(x);
  const int quantum = std::max(binade(x), f.min_exponent) - f.precision + 1;
  const double significand = std::abs(x) * power_of_two(-quantum);
  auto whole = static_cast<std::int64_t>(significand);
  const double fraction = significand - static_cast<double>(whole);
  if (fraction > 0.0 && goes_away(whole, fraction, negative, rounding)) ++whole;

  double magnitude = static_cast<double>(whole) * power_of_two(quantum);
  if (magnitude > f.largest) magnitude = overflowed(f, negative, rounding);
  return negative ? -magnitude : magnitude;
}

}  // namespace driftbound
