#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <vector>

#include "driftbound/num/interval.hpp"

/// The functions of the ops over any scalar, written so that neither overflow nor cancellation spoils them.
/// Calls are unqualified: the scalar's own functions are found by argument-dependent lookup, those of the
/// standard library for float and double.
namespace driftbound::scalar {

using std::atan;
using std::ceil;
using std::cos;
using std::cosh;
using std::erf;
using std::exp;
using std::expm1;
using std::floor;
using std::log;
using std::log1p;
using std::max;
using std::min;
using std::pow;
using std::rint;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;

/// What a scalar must offer; the functions of single ops come on top (see evaluate_as).
template <class Real>
concept Arithmetic = std::semiregular<Real> && std::constructible_from<Real, double> &&
    requires(const Real& x, const Real& y) {
  { x + y } -> std::same_as<Real>;
  { x - y } -> std::same_as<Real>;
  { x* y } -> std::same_as<Real>;
  { x / y } -> std::same_as<Real>;
  { -x } -> std::same_as<Real>;
  { max(x, y) } -> std::convertible_to<Real>;
  { min(x, y) } -> std::convertible_to<Real>;
};

/// Rationals and the like have no elementary functions, whatever their library declares.
template <class Real>
concept Inexact = !std::numeric_limits<Real>::is_exact;

template <class Real>
concept HasExp = Inexact<Real> && requires(const Real& x) {
  { exp(x) } -> std::same_as<Real>;
};
template <class Real>
concept HasExpm1 = Inexact<Real> && requires(const Real& x) {
  { expm1(x) } -> std::same_as<Real>;
};
template <class Real>
concept HasLog1p = Inexact<Real> && requires(const Real& x) {
  { log1p(x) } -> std::same_as<Real>;
};

template <class Real>
concept HasPow = Inexact<Real> && requires(const Real& x) {
  { pow(x, x) } -> std::same_as<Real>;
};
template <class Real>
concept Ordered = requires(const Real& x) {
  { x < x } -> std::convertible_to<bool>;
  { x == x } -> std::convertible_to<bool>;
};

/// 1 / x
template <Arithmetic Real>
Real reciprocal(const Real& x) {
  return Real(1.0) / x;
}

/// |x|
template <Arithmetic Real>
Real absolute(const Real& x) {
  return max(x, Real(-x));
}

/// -1, 0 or 1; a value that is not ordered (NaN) stays what it is.
template <Arithmetic Real>
requires Ordered<Real> Real sign(const Real& x) {
  const Real zero(0.0);
  if (x < zero) return Real(-1.0);
  if (zero < x) return Real(1.0);
  return x;
}

/// x above alpha, else 0; a value that is not ordered (NaN) stays what it is.
template <Arithmetic Real>
requires Ordered<Real> Real thresholded_relu(const Real& x, const Real& alpha) {
  if (x < alpha || x == alpha) return Real(0.0);
  return x;
}

/// a > b, a >= b, a = b as truth values, 0 or 1
template <Arithmetic Real>
requires Ordered<Real> Real greater(const Real& a, const Real& b) {
  return Real(b < a ? 1.0 : 0.0);
}
template <Arithmetic Real>
requires Ordered<Real> Real greater_or_equal(const Real& a, const Real& b) {
  return Real(b < a || a == b ? 1.0 : 0.0);
}
template <Arithmetic Real>
requires Ordered<Real> Real equal(const Real& a, const Real& b) {
  return Real(a == b ? 1.0 : 0.0);
}

/// a for c above 1/2, else b
template <Arithmetic Real>
requires Ordered<Real> Real choice(const Real& c, const Real& a, const Real& b) {
  return Real(0.5) < c ? a : b;
}

/// Whether x^p is a product of few factors, which every scalar has.
inline bool is_repeated_product(double p) {
  constexpr double most_factors = 64.0;
  return std::trunc(p) == p && std::abs(p) <= most_factors;
}

/// x^p as |p| factors or one over them.
/// Domain:    is_repeated_product(p)
template <Arithmetic Real>
Real repeated_product(const Real& x, double p) {
  Real result(1.0);
  Real square = x;
  for (auto left = static_cast<int>(std::abs(p)); left > 0; left /= 2) {
    if (left % 2 != 0) result = result * square;
    if (left > 1) square = square * square;
  }
  return p < 0.0 ? Real(1.0) / result : result;
}

/// x^p
template <Arithmetic Real>
requires HasPow<Real> Real power(const Real& x, double p) {
  const Real exponent = static_cast<Real>(p);
  return is_repeated_product(p) ? repeated_product(x, p) : Real(pow(x, exponent));
}

/// max(x, 0)
template <Arithmetic Real>
Real relu(const Real& x) {
  return max(x, Real(0.0));
}

/// max(x, 0) + alpha min(x, 0)
template <Arithmetic Real>
Real leaky_relu(const Real& x, const Real& alpha) {
  const Real zero(0.0);
  return max(x, zero) + alpha * min(x, zero);
}

/// max(x, 0) + alpha (e^min(x, 0) - 1)
template <Arithmetic Real>
requires HasExpm1<Real> Real elu(const Real& x, const Real& alpha) {
  const Real zero(0.0);
  const Real below = min(x, zero);
  return max(x, zero) + alpha * expm1(below);
}

/// e^min(x, 0) / (1 + e^-|x|)
template <Arithmetic Real>
requires HasExp<Real> Real sigmoid(const Real& x) {
  const Real below = min(x, Real(0.0));
  const Real minus_size = min(x, Real(-x));
  return exp(below) / (Real(1.0) + exp(minus_size));
}

/// max(x, 0) + log(1 + e^-|x|)
template <Arithmetic Real>
requires HasExp<Real> && HasLog1p<Real> Real softplus(const Real& x) {
  const Real minus_size = min(x, Real(-x));
  const Real small = exp(minus_size);
  return max(x, Real(0.0)) + log1p(small);
}

/// e^(x_i - max x) / sum_j e^(x_j - max x)
template <Arithmetic Real>
requires HasExp<Real>
void softmax(std::vector<Real>& x) {
  Real largest = x.front();
  for (const Real& value : x) largest = max(largest, value);
  Real total(0.0);
  for (Real& value : x) {
    const Real shifted = value - largest;
    value = exp(shifted);
    total = total + value;
  }
  for (Real& value : x) value = value / total;
}

// On intervals a formula in which x occurs twice encloses more than the range. These take the range.

inline Interval absolute(const Interval& x) {
  return abs(x);
}
inline Interval sign(const Interval& x) {
  return driftbound::sign(x);
}
/// 1 where that is certain, 0 where the contrary is, else either of them
inline Interval truth(bool holds, bool fails) {
  return Interval(holds ? 1.0 : 0.0, fails ? 0.0 : 1.0);
}
inline Interval greater(const Interval& a, const Interval& b) {
  return truth(a.lower() > b.upper(), a.upper() <= b.lower());
}
inline Interval greater_or_equal(const Interval& a, const Interval& b) {
  return truth(a.lower() >= b.upper(), a.upper() < b.lower());
}
inline Interval equal(const Interval& a, const Interval& b) {
  const bool are_points = a.lower() == a.upper() && b.lower() == b.upper();
  return truth(are_points && a == b, a.upper() < b.lower() || b.upper() < a.lower());
}
inline Interval choice(const Interval& c, const Interval& a, const Interval& b) {
  if (c.lower() > 0.5) return a;
  return c.upper() <= 0.5 ? b : hull(a, b);
}
inline Interval thresholded_relu(const Interval& x, const Interval& alpha) {
  if (x.lower() > alpha.upper()) return x;
  return x.upper() <= alpha.lower() ? Interval(0.0) : hull(x, Interval(0.0));
}
inline Interval power(const Interval& x, double p) {
  return pow(x, p);
}

/// 1 / (1 + e^-x): x occurs once.
inline Interval sigmoid(const Interval& x) {
  return Interval(1.0) / (Interval(1.0) + exp(-x));
}

/// Between the values at the ends: softplus increases.
inline Interval softplus(const Interval& x) {
  const Interval lower = softplus<Interval>(Interval(x.lower()));
  const Interval upper = softplus<Interval>(Interval(x.upper()));
  return Interval(lower.lower(), upper.upper());
}

/// e_i / (e_i + sum of the others) increases in e_i and decreases in the others; it lies in [0, 1].
inline void softmax(std::vector<Interval>& x) {
  double shift = x.front().midpoint();  // any number gives the same function
  for (const Interval& value : x) shift = std::max(shift, value.midpoint());
  for (Interval& value : x) value = exp(value - Interval(shift));
  std::vector<Interval> after(x.size());  // sums of e_j, j > i
  for (std::size_t i = x.size() - 1; i > 0; --i) after[i - 1] = after[i] + x[i];
  Interval before;  // sum of e_j, j < i
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Interval self = x[i], others = before + after[i];
    const auto share = [](double e, double rest) { return Interval(e) / (Interval(e) + Interval(rest)); };
    before = before + self;
    x[i] = Interval(std::clamp(share(self.lower(), others.upper()).lower(), 0.0, 1.0),
                    std::clamp(share(self.upper(), others.lower()).upper(), 0.0, 1.0));
  }
}

}  // namespace driftbound::scalar
