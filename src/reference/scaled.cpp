#include "reference/scaled.hpp"

#include <algorithm>
#include <cmath>

#include "driftbound/num/directed.hpp"

namespace driftbound {

namespace {

// One operation to nearest followed by one of these factors lies on the safe side of the exact result:
// (1 - u)(1 + 4u)(1 - u) >= 1 and (1 + u)(1 - 4u)(1 + u) <= 1 for u = 2^-53.
constexpr double outward = 1.0 + 0x1p-51;
constexpr double inward = 1.0 - 0x1p-51;

}  // namespace

Scaled Scaled::of(double m, std::int64_t exponent) {
  if (m == 0.0) return {};
  if (!std::isfinite(m)) return infinite();
  int shift = 0;
  const double mantissa = std::frexp(m, &shift);
  const std::int64_t e = std::clamp(exponent, -2 * largest_exponent, 2 * largest_exponent) + shift;
  if (e > largest_exponent) return infinite();
  if (e < -largest_exponent) return smallest();
  return {e, mantissa};
}

Scaled Scaled::smallest() {
  return {-largest_exponent, 0.5};
}

Scaled Scaled::upper(mpfr_srcptr x) {
  if (mpfr_zero_p(x)) return {};
  if (!mpfr_number_p(x)) return infinite();
  long exponent = 0;
  const double m = mpfr_get_d_2exp(&exponent, x, MPFR_RNDA);
  return of(std::fabs(m), exponent);
}

Scaled Scaled::lower(mpfr_srcptr x) {
  if (!mpfr_regular_p(x)) return {};
  long exponent = 0;
  const double m = mpfr_get_d_2exp(&exponent, x, MPFR_RNDZ);
  if (exponent < -largest_exponent) return {};
  return {std::min<std::int64_t>(exponent, largest_exponent), std::fabs(m)};
}

double Scaled::to_double_up() const {
  if (is_zero()) return 0.0;
  if (!is_finite() || exponent_ > 1024) return std::numeric_limits<double>::infinity();
  if (exponent_ < -1100) return std::numeric_limits<double>::denorm_min();
  const int e = static_cast<int>(exponent_);
  const double d = std::ldexp(mantissa_, e);
  return std::ldexp(d, -e) < mantissa_ ? next_up(d) : d;
}

double Scaled::to_double_down() const {
  if (is_zero() || exponent_ < -1100) return 0.0;
  if (!is_finite() || exponent_ > 1024) return std::numeric_limits<double>::max();
  const int e = static_cast<int>(exponent_);
  const double d = std::ldexp(mantissa_, e);
  return std::ldexp(d, -e) > mantissa_ ? next_down(d) : d;
}

Scaled add_up(Scaled x, Scaled y) {
  if (x < y) std::swap(x, y);
  if (y.is_zero() || !x.is_finite()) return x;
  const std::int64_t shift = y.exponent() - x.exponent();
  const double small = shift < -200 ? 0x1p-200 : std::ldexp(y.mantissa(), static_cast<int>(shift));
  return Scaled::of((x.mantissa() + small) * outward, x.exponent());
}

Scaled mul_up(Scaled x, Scaled y) {
  if (x.is_zero() || y.is_zero()) return {};
  if (!x.is_finite() || !y.is_finite()) return Scaled::infinite();
  return Scaled::of(x.mantissa() * y.mantissa() * outward, x.exponent() + y.exponent());
}

Scaled div_up(Scaled x, Scaled y) {
  if (y.is_zero() || !x.is_finite()) return Scaled::infinite();
  if (x.is_zero()) return {};
  if (!y.is_finite()) return Scaled::infinite();
  return Scaled::of(x.mantissa() / y.mantissa() * outward, x.exponent() - y.exponent());
}

Scaled sqrt_down(Scaled x) {
  if (x.is_zero()) return {};
  const std::int64_t half = x.exponent() / 2 - (x.exponent() < 0 ? 1 : 0);
  const double m = std::ldexp(x.mantissa(), static_cast<int>(x.exponent() - 2 * half));
  return Scaled::of(std::sqrt(m) * inward, half);
}

Scaled sub_down(Scaled x, Scaled y) {
  if (!(x > y)) return {};
  if (y.is_zero()) return x;
  const std::int64_t shift = y.exponent() - x.exponent();
  const double small = shift < -200 ? 0x1p-200 : std::ldexp(y.mantissa(), static_cast<int>(shift));
  const double difference = (x.mantissa() - small) * inward;
  return difference > 0.0 && x.exponent() > 300 - Scaled::largest_exponent ? Scaled::of(difference, x.exponent())
                                                                           : Scaled();
}

Scaled exp_up(double t) {
  if (!(t < 0x1p58)) return Scaled::infinite();
  if (t < -0x1p58) return Scaled::power_of_two(-(std::int64_t{1} << 58));
  // log2(e) = 1.44269…; the factors lie beyond it by far more than the rounding of the product.
  return Scaled::power_of_two(static_cast<std::int64_t>(std::ceil(t * (t > 0.0 ? 1.4427 : 1.4426))));
}

Scaled expm1_up(Scaled r) {
  if (r > Scaled::of(1.0)) return exp_up(r.to_double_up());
  return add_up(r, mul_up(r, r));  // e^r - 1 - r = r^2 (1/2 + r/6 + …) <= (e - 2) r^2 for r <= 1
}

}  // namespace driftbound
