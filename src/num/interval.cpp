#include "driftbound/num/interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "num/flushing.hpp"

namespace driftbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();

/// 0 times an infinite bound is 0, and so is one infinite bound by another: the bound stands for
/// real numbers without limit, not for a number.
double value_or_zero(double x) {
  return std::isnan(x) ? 0.0 : x;
}

}  // namespace

Interval::Interval(double point) : lower_(point), upper_(point) {
  num::require_subnormals();
  if (!std::isfinite(point)) *this = whole();
}

Interval::Interval(double lower, double upper) : lower_(lower), upper_(upper) {
  num::require_subnormals();
  if (!(lower <= upper && lower < infinity && upper > -infinity)) {
    throw InvalidArgument(
        fmt::format("[{}, {}] is not an interval of real numbers: give lower <= upper", lower, upper));
  }
}

Interval Interval::whole() {
  return Interval(-infinity, infinity);
}

bool Interval::contains(double x) const {
  num::require_subnormals();
  return lower_ <= x && x <= upper_;
}

bool Interval::contains(const Interval& x) const {
  num::require_subnormals();
  return lower_ <= x.lower_ && x.upper_ <= upper_;
}

bool Interval::is_finite() const {
  return std::isfinite(lower_) && std::isfinite(upper_);
}

Magnitude Interval::magnitude() const {
  num::require_subnormals();
  return Magnitude(std::max(std::abs(lower_), std::abs(upper_)));
}

double Interval::mignitude() const {
  return contains(0.0) ? 0.0 : std::min(std::abs(lower_), std::abs(upper_));
}

Magnitude Interval::width() const {
  num::require_subnormals();
  return Magnitude(sub_up(upper_, lower_));
}

double Interval::midpoint() const {
  num::require_subnormals();
  if (lower_ == -infinity) return upper_ == infinity ? 0.0 : -largest;
  return upper_ == infinity ? largest : std::midpoint(lower_, upper_);
}

Interval Interval::operator-() const {
  return Interval(-upper_, -lower_);
}

Interval& Interval::operator+=(const Interval& y) {
  return *this = Interval(add_down(lower_, y.lower_), add_up(upper_, y.upper_));
}

Interval& Interval::operator-=(const Interval& y) {
  return *this = Interval(sub_down(lower_, y.upper_), sub_up(upper_, y.lower_));
}

Interval& Interval::operator*=(const Interval& y) {
  double lower = infinity;
  double upper = -infinity;
  for (const double a : {lower_, upper_}) {
    for (const double b : {y.lower_, y.upper_}) {
      lower = std::min(lower, value_or_zero(mul_down(a, b)));
      upper = std::max(upper, value_or_zero(mul_up(a, b)));
    }
  }
  return *this = Interval(lower, upper);
}

Interval& Interval::operator/=(const Interval& y) {
  if (y.contains(0.0)) return *this = whole();
  double lower = infinity;
  double upper = -infinity;
  for (const double a : {lower_, upper_}) {
    for (const double b : {y.lower_, y.upper_}) {
      lower = std::min(lower, value_or_zero(div_down(a, b)));
      upper = std::max(upper, value_or_zero(div_up(a, b)));
    }
  }
  return *this = Interval(lower, upper);
}

Interval abs(const Interval& x) {
  return Interval(x.mignitude(), x.magnitude().value());
}

Interval max(const Interval& x, const Interval& y) {
  return Interval(std::max(x.lower(), y.lower()), std::max(x.upper(), y.upper()));
}

Interval min(const Interval& x, const Interval& y) {
  return Interval(std::min(x.lower(), y.lower()), std::min(x.upper(), y.upper()));
}

Interval hull(const Interval& x, const Interval& y) {
  return Interval(std::min(x.lower(), y.lower()), std::max(x.upper(), y.upper()));
}

Interval sqrt(const Interval& x) {
  if (x.lower() < 0.0) return Interval::whole();
  return Interval(sqrt_down(x.lower()), sqrt_up(x.upper()));
}

}  // namespace driftbound
