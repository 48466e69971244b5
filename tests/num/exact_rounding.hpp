#pragma once

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>

#include "driftbound/num/format.hpp"

/// Rounding by its definition, in exact integers: every double and every number of every format is
/// a multiple of 2^-1074, so 2^1074 is a common denominator.
namespace driftbound_tests {

using driftbound::Format;
using driftbound::Rounding;

inline constexpr Rounding all_roundings[] = {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero,
                                             Rounding::up, Rounding::down};

using Exact = boost::multiprecision::number<
    boost::multiprecision::cpp_int_backend<2304, 2304, boost::multiprecision::unsigned_magnitude,
                                           boost::multiprecision::unchecked, void>,
    boost::multiprecision::et_off>;

/// |x| 2^1074
inline Exact exact_magnitude(double x) {
  int exponent = 0;
  const double significand = std::frexp(std::abs(x), &exponent);  // |x| = (significand 2^53) 2^(exponent - 53)
  const auto integer = static_cast<unsigned long long>(std::ldexp(significand, 53));
  const int shift = exponent - 53 + 1074;
  return shift >= 0 ? Exact(integer) << static_cast<unsigned>(shift) : Exact(integer >> static_cast<unsigned>(-shift));
}

/// The two neighbours of |x| in a format whose exponents have no upper limit, and where |x| lies between them.
class ExactRounding {
public:
  ExactRounding(double x, const Format& f) : format_(f), x_(x) {
    if (!std::isfinite(x) || x == 0.0) return;
    const Exact magnitude = exact_magnitude(x);
    const int binade = static_cast<int>(msb(magnitude)) - 1074;
    spacing_exponent_ = std::max(binade, f.min_exponent) - f.precision + 1;
    const auto shift = static_cast<unsigned>(spacing_exponent_ + 1074);
    const Exact below = magnitude >> shift;
    const Exact rest = magnitude - (below << shift);
    below_ = static_cast<unsigned long long>(below);
    twice_rest_compared_to_spacing_ = Exact(rest << 1).compare(Exact(1) << shift);
    is_exact_ = rest == 0;
    largest_ = exact_magnitude(f.largest);
  }

  double operator()(Rounding rounding) const {
    if (std::isnan(x_) || x_ == 0.0) return x_;
    if (std::isinf(x_)) return infinity(x_ < 0.0);
    const bool negative = x_ < 0.0;
    const unsigned long long multiple = below_ + (takes_upper(rounding, negative) ? 1 : 0);
    const Exact result = Exact(multiple) << static_cast<unsigned>(spacing_exponent_ + 1074);
    if (result > largest_) return beyond_largest(rounding, negative);
    const double magnitude = std::ldexp(static_cast<double>(multiple), spacing_exponent_);
    return negative ? -magnitude : magnitude;
  }

private:
  bool takes_upper(Rounding rounding, bool negative) const {
    if (is_exact_) return false;
    if (rounding == Rounding::toward_zero) return false;
    if (rounding == Rounding::up) return !negative;
    if (rounding == Rounding::down) return negative;
    if (twice_rest_compared_to_spacing_ != 0) return twice_rest_compared_to_spacing_ > 0;
    return rounding == Rounding::nearest_away || below_ % 2 == 1;
  }

  double beyond_largest(Rounding rounding, bool negative) const {
    const bool toward_zero = rounding == Rounding::toward_zero || (rounding == Rounding::up && negative) ||
                             (rounding == Rounding::down && !negative);
    if (!toward_zero) return infinity(negative);
    return negative ? -format_.largest : format_.largest;
  }

  double infinity(bool negative) const {
    if (!format_.has_infinity) return std::numeric_limits<double>::quiet_NaN();
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }

  const Format& format_;
  double x_;
  int spacing_exponent_ = 0;
  unsigned long long below_ = 0;
  int twice_rest_compared_to_spacing_ = 0;
  bool is_exact_ = true;
  Exact largest_;
};

/// Equal as results of rounding: NaN equals NaN, and the signs of zeros count.
inline bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace driftbound_tests
