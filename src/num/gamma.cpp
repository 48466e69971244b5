#include "driftbound/num/gamma.hpp"

#include <fmt/format.h>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "num/rounding_decisions.hpp"

namespace driftbound {
namespace {

void require_domain(std::int64_t n, double unit_roundoff) {
  if (n < 0) throw InvalidArgument(fmt::format("gamma and growth count roundings: n = {} must not be negative", n));
  if (!(unit_roundoff >= 0.0 && unit_roundoff < 1.0)) {
    throw InvalidArgument(
        fmt::format("unit roundoff {} is outside [0, 1): take it from unit_roundoff(format, rounding)", unit_roundoff));
  }
}

/// n u, rounded up. Both halves of n are doubles.
double product_up(std::int64_t n, double u) {
  const double high = static_cast<double>(n >> 32) * 0x1p32;
  const double low = static_cast<double>(n & 0xffffffff);
  return mul_up(add_up(high, low), u);
}

/// t (1 + (t/2) / (1 - t/3)) >= e^t - 1 for 0 <= t < 3.
Magnitude expm1_up(double t) {
  const double correction = div_up(t / 2.0, sub_down(1.0, div_up(t, 3.0)));
  return Magnitude(mul_up(t, add_up(1.0, correction)));
}

/// (1 + g)(1 + h) - 1 <= g + h + g h.
Magnitude compound(Magnitude g, Magnitude h) {
  return g + h + g * h;
}

Magnitude growth_by_squaring(std::int64_t n, Magnitude u) {
  Magnitude result;
  for (Magnitude square = u; n > 0; n >>= 1, square = compound(square, square)) {
    if (n & 1) result = compound(result, square);
  }
  return result;
}

// Up to here the bound below exceeds (1 + u)^n - 1 by a fraction of at most u + 2^-20.
constexpr double series_up_to = 0x1p-5;

}  // namespace

Magnitude gamma(std::int64_t n, double unit_roundoff) {
  require_domain(n, unit_roundoff);
  const double product = product_up(num::theorems::counted_roundings(n), unit_roundoff);
  return divide_up(Magnitude(product), sub_down(1.0, product));
}

Magnitude growth(std::int64_t n, double unit_roundoff) {
  require_domain(n, unit_roundoff);
  const std::int64_t counted = num::theorems::counted_roundings(n);
  const double product = product_up(counted, unit_roundoff);
  return product <= series_up_to ? expm1_up(product) : growth_by_squaring(counted, Magnitude(unit_roundoff));
}

}  // namespace driftbound
