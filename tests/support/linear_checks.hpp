#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bounds/theorems/expansions.hpp"
#include "support/rule_checks.hpp"

/// Expansions (T-65, T-66) against samples of the truth.
namespace checks {

using LinearFunction = std::function<bounds::Linear(const bounds::Point&)>;

/// A function on [low, high], what it is called with, and where its kinks and jumps are.
struct LinearSubject {
  LinearFunction rule;
  RealFunction f;
  double low = 0.0, high = 0.0, alpha = 0.0;
  std::vector<double> kinks = {};
};

struct LinearTallies {
  Tally remainder, lipschitz;
  std::int64_t violations() const { return remainder.violations + lipschitz.violations; }
  std::string first_violation() const {
    return remainder.violations > 0 ? remainder.first_violation : lipschitz.first_violation;
  }
};

inline Real larger_of(const Real& a, const Real& b) {
  return a < b ? b : a;
}
inline Real smaller_of(const Real& a, const Real& b) {
  return a < b ? a : b;
}

/// Anywhere, at a kink, next to one, or on the scale of one of the smallest numbers.
inline double draw_centre(const LinearSubject& s, Generator& generator) {
  const int kind = static_cast<int>(generator() % 6);
  const double anywhere = uniform(generator, s.low, s.high);
  double x = anywhere;
  if (kind == 0 && !s.kinks.empty()) x = s.kinks[generator() % s.kinks.size()];
  if (kind == 1 && !s.kinks.empty()) {
    x = s.kinks[generator() % s.kinks.size()] + uniform(generator, -1.0, 1.0) * draw_radius(generator);
  }
  if (kind == 2) x = std::ldexp(anywhere, -static_cast<int>(generator() % 60));
  return s.low < x && x < s.high ? x : anywhere;
}

/// Up to the edge of where the function is defined.
inline double draw_reach(const LinearSubject& s, double x, Generator& generator) {
  double e = generator() % 3 == 0 ? std::abs(x) * draw_radius(generator) : draw_radius(generator);
  if (!s.kinks.empty() && generator() % 3 == 0) e = std::abs(x - s.kinks[0]) * uniform(generator, 0.5, 2.0);
  const double room = std::min(x - s.low, s.high - x);
  return e < room ? e : room * uniform(generator, 0.0, 1.0);
}

/// Moves by up to e: both ends, points between, and the two sides of every kink.
inline std::vector<double> draw_moves(const LinearSubject& s, double x, double e, Generator& generator) {
  std::vector<double> moves = {-e, e, -0.5 * e, 0.5 * e, -0x1p-10 * e, 0x1p-10 * e};
  for (int i = 0; i < 6; ++i) moves.push_back(uniform(generator, -e, e));
  for (const double kink : s.kinks) {
    const double t = kink - x;
    for (const double factor : {1.0 - 0x1p-30, 1.0, 1.0 + 0x1p-30}) {
      if (std::abs(t * factor) <= e) moves.push_back(t * factor);
    }
  }
  return moves;
}

inline bounds::Point stored_point(const LinearSubject& s, double x, double e, const Real& value, bool narrow) {
  const double y = narrow ? static_cast<double>(static_cast<float>(value.to_double())) : value.to_double();
  const double y_error = abs(Real(y) - value).to_double() * (1.0 + 0x1p-40) + 0x1p-1074;
  return {x, Magnitude(e), y, Magnitude(y_error), s.alpha};
}

/// |f(x + t) - f(x) - slope t| and |f(x + t) - f(x)| for many t within e of x.
inline LinearTallies check_linear_rule(const LinearSubject& s, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  LinearTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double x = draw_centre(s, generator), e = draw_reach(s, x, generator);
    const Real value = s.f(Real(x));
    const bounds::Linear linear = s.rule(stored_point(s, x, e, value, repetition % 3 == 0));
    for (const double t : draw_moves(s, x, e, generator)) {
      const Real change = s.f(Real(x) + Real(t)) - value;
      tallies.remainder.add(0.0, change - Real(linear.slope) * Real(t), linear.remainder.value());
      if (t != 0.0) tallies.lipschitz.add(0.0, change / Real(t), linear.lipschitz.value());
    }
  }
  return tallies;
}

/// The largest ratio of the remainder to what some move attains, or to 2^-40 of the linear part where that is more, for
/// values stored in double and radii from `smallest` to `largest`.
inline double looseness_of(const LinearSubject& s, double smallest, double largest, int repetitions,
                           std::uint64_t seed) {
  Generator generator(seed);
  double looseness = 0.0;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double x = uniform(generator, s.low, s.high);
    const double e = smallest * std::pow(largest / smallest, uniform(generator, 0.0, 1.0));
    if (!(x - e > s.low && x + e < s.high)) continue;
    const Real value = s.f(Real(x));
    const bounds::Linear linear = s.rule(stored_point(s, x, e, value, false));
    Real attained = Real(std::abs(linear.slope) * e * 0x1p-40);
    for (const double t : {-e, e, -0.75 * e, 0.75 * e, -0.5 * e, 0.5 * e, -0.25 * e, 0.25 * e}) {
      attained = larger_of(attained, abs(s.f(Real(x) + Real(t)) - value - Real(linear.slope) * Real(t)));
    }
    if (linear.remainder == Magnitude()) continue;
    const double ratio = (Real(linear.remainder.value()) / attained).to_double();
    if (!(ratio <= looseness)) looseness = ratio;
  }
  return looseness;
}

using RealPairFunction = std::function<Real(const Real&, const Real&)>;

/// Every corner of a box, its middle lines, points inside, and the kink of the first operand.
inline Tally check_linear_pair(bounds::BinaryExpansion rule, const RealPairFunction& f, int repetitions,
                               std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double a = repetition % 7 == 0 ? 0.0 : uniform(generator, -2.0, 2.0);
    const double b = repetition % 5 == 0 && a != 0.0 ? a : uniform(generator, -2.0, 2.0);
    const double ea = repetition % 11 == 0 ? 0.0 : draw_radius(generator);
    const double eb = repetition % 13 == 0 ? 0.0 : draw_radius(generator);
    const bounds::LinearPair pair = rule(a, Magnitude(ea), b, Magnitude(eb));
    if (!pair.remainder.is_finite()) continue;
    const Real centre = f(Real(a), Real(b));
    for (const double s : {-ea, 0.0, ea, uniform(generator, -ea, ea), std::clamp(-a, -ea, ea)}) {
      for (const double t : {-eb, 0.0, eb, uniform(generator, -eb, eb)}) {
        const Real moved = f(Real(a) + Real(s), Real(b) + Real(t));
        const Real linear = Real(pair.slope_a) * Real(s) + Real(pair.slope_b) * Real(t);
        tally.add(0.0, moved - centre - linear, pair.remainder.value());
      }
    }
  }
  return tally;
}

/// Every corner of a box of radii, on groups of up to five terms.
inline Tally check_linear_group(bounds::GroupExpansion rule, const RealPairFunction& join, int repetitions,
                                std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 1 + generator() % 5;
    std::vector<double> x(n), e(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = i > 0 && generator() % 5 == 0 ? x[0] : uniform(generator, -2.0, 2.0);
      e[i] = generator() % 4 == 0 ? 0.0 : draw_radius(generator);
    }
    const bounds::LinearExtremum extremum = rule(x, e);
    for (std::size_t corner = 0; corner < (std::size_t{1} << n); ++corner) {
      const auto term = [&](std::size_t i) { return Real(x[i]) + Real((corner >> i & 1) != 0 ? e[i] : -e[i]); };
      Real centre = Real(x[0]), moved = term(0);
      for (std::size_t i = 1; i < n; ++i) {
        centre = join(centre, Real(x[i]));
        moved = join(moved, term(i));
      }
      const Real linear = term(extremum.chosen) - Real(x[extremum.chosen]);
      tally.add(0.0, moved - centre - linear, extremum.remainder.value());
    }
  }
  return tally;
}

/// Every corner of a box of radii and points inside, on rows of up to five logits; wide rows have one that dominates.
inline Tally check_linear_softmax(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 1 + generator() % 5;
    const double width = repetition % 3 == 0 ? 30.0 : 3.0;
    std::vector<double> e(n), stored(n), stored_error(n), remainder(n);
    std::vector<Real> x(n);
    const double scale = draw_radius(generator);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = Real(uniform(generator, -width, width));
      e[i] = generator() % 4 == 0 ? 0.0 : scale * uniform(generator, 0.0, 1.0);
    }
    const std::vector<Real> p = exact_softmax(x);
    for (std::size_t i = 0; i < n; ++i) {
      stored[i] = repetition % 4 == 0 ? static_cast<double>(static_cast<float>(p[i].to_double())) : p[i].to_double();
      stored_error[i] = abs(Real(stored[i]) - p[i]).to_double() * (1.0 + 0x1p-40);
    }
    bounds::linear_softmax(stored, stored_error, e, remainder);
    for (std::size_t corner = 0; corner < (std::size_t{1} << n) + 4; ++corner) {
      std::vector<Real> moved = x, d(n);
      Real mean;
      for (std::size_t i = 0; i < n; ++i) {
        const bool is_corner = corner < (std::size_t{1} << n);
        d[i] = is_corner ? Real((corner >> i & 1) != 0 ? e[i] : -e[i]) : Real(uniform(generator, -e[i], e[i]));
        moved[i] += d[i];
        mean += Real(stored[i]) * d[i];
      }
      const std::vector<Real> q = exact_softmax(moved);
      for (std::size_t i = 0; i < n; ++i) tally.add(0.0, q[i] - p[i] - Real(stored[i]) * (d[i] - mean), remainder[i]);
    }
  }
  return tally;
}

/// A function of one element with its rule in the table. The remainder stays below `loosest` times what is attained for
/// radii up to 2^-4; 0: a jump has no such factor.
struct LinearCase {
  std::string name;
  LinearSubject subject;
  double loosest = 1.1;
};

inline RealFunction real_power(double p) {
  return [p](const Real& x) {
    return x.apply([p](mpfr_ptr y, mpfr_srcptr argument, mpfr_rnd_t rounding) {
      mpfr_t exponent;
      mpfr_init2(exponent, 53);
      mpfr_set_d(exponent, p, MPFR_RNDN);
      mpfr_pow(y, argument, exponent, rounding);
      mpfr_clear(exponent);
    });
  };
}

/// Every function of one element that has slopes, by the rules given.
inline std::vector<LinearCase> linear_cases() {
  const auto of = [](int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) -> RealFunction {
    return [function](const Real& x) { return x.apply(function); };
  };
  const auto below = [](const Real& x, const Real& y) { return x < Real() ? y : x; };
  const auto leaky = [below](double alpha) -> RealFunction {
    return [=](const Real& x) { return below(x, Real(alpha) * x); };
  };
  const auto elu = [below](double alpha) -> RealFunction {
    return [=](const Real& x) { return below(x, Real(alpha) * x.apply(mpfr_expm1)); };
  };
  const auto clip = [](double least, double most) -> RealFunction {
    return [=](const Real& x) { return smaller_of(larger_of(x, Real(least)), Real(most)); };
  };
  const auto clipped = [rule = bounds::linear_clip](double least, double most) -> LinearFunction {
    return [=](const bounds::Point& p) { return rule(p, least, most); };
  };
  const auto thresholded = [](double alpha) -> RealFunction {
    return [=](const Real& x) { return x <= Real(alpha) ? Real() : x; };
  };
  const RealFunction sigmoid = [](const Real& x) { return Real(1.0) / (Real(1.0) + (-x).apply(mpfr_exp)); };
  const RealFunction softplus = [](const Real& x) {
    return larger_of(x, Real()) + (-abs(x)).apply(mpfr_exp).apply(mpfr_log1p);
  };
  const RealFunction sign = [](const Real& x) { return Real(x < Real() ? -1.0 : Real() < x ? 1.0 : 0.0); };
  const auto whole = [](int (*function)(mpfr_ptr, mpfr_srcptr)) -> RealFunction {
    return [function](const Real& x) {
      return x.apply([function](mpfr_ptr y, mpfr_srcptr t, mpfr_rnd_t) { function(y, t); });
    };
  };
  return {{"relu", {bounds::linear_relu, leaky(0.0), -4, 4, 0.0, {0.0}}},
          {"leaky relu", {bounds::linear_leaky_relu, leaky(0.1), -4, 4, 0.1, {0.0}}},
          {"leaky relu, negative slope", {bounds::linear_leaky_relu, leaky(-0.5), -4, 4, -0.5, {0.0}}},
          {"leaky relu, steep", {bounds::linear_leaky_relu, leaky(3.0), -4, 4, 3.0, {0.0}}},
          {"elu", {bounds::linear_elu, elu(1.0), -8, 8, 1.0, {0.0}}},
          {"elu, gentle", {bounds::linear_elu, elu(0.8), -8, 8, 0.8, {0.0}}},
          {"elu, steep", {bounds::linear_elu, elu(2.5), -8, 8, 2.5, {0.0}}},
          {"elu, falling", {bounds::linear_elu, elu(-0.5), -8, 8, -0.5, {0.0}}},
          {"tanh", {bounds::linear_tanh, of(mpfr_tanh), -10, 10, 0.0, {0.0}}},
          {"sigmoid", {bounds::linear_sigmoid, sigmoid, -20, 20, 0.0, {0.0}}},
          {"softplus", {bounds::linear_softplus, softplus, -20, 20, 0.0, {0.0}}},
          {"sin", {bounds::linear_sin, of(mpfr_sin), -50, 50, 0.0, {0.0}}},
          {"cos", {bounds::linear_cos, of(mpfr_cos), -50, 50, 0.0, {0.0}}},
          {"exp", {bounds::linear_exp, of(mpfr_exp), -50, 50}},
          {"erf", {bounds::linear_erf, of(mpfr_erf), -5, 5, 0.0, {0.0}}, 1.5},
          {"sqrt", {bounds::linear_sqrt, of(mpfr_sqrt), 0, 10}},
          {"abs", {bounds::linear_abs, of(mpfr_abs), -4, 4, 0.0, {0.0}}},
          {"reciprocal", {bounds::linear_reciprocal, [](const Real& x) { return Real(1.0) / x; }, 0, 4}},
          {"reciprocal below 0", {bounds::linear_reciprocal, [](const Real& x) { return Real(1.0) / x; }, -4, 0}},
          {"log", {bounds::linear_log, of(mpfr_log), 0, 10}},
          {"tan", {bounds::linear_tan, of(mpfr_tan), -1.5707, 1.5707, 0.0, {0.0}}},
          {"atan", {bounds::linear_atan, of(mpfr_atan), -20, 20, 0.0, {0.0}}},
          {"sinh", {bounds::linear_sinh, of(mpfr_sinh), -20, 20, 0.0, {0.0}}},
          {"cosh", {bounds::linear_cosh, of(mpfr_cosh), -20, 20, 0.0, {0.0}}},
          {"floor", {bounds::linear_floor, whole(mpfr_floor), -3, 3, 0.0, {1.0}}, 0.0},
          {"ceil", {bounds::linear_ceil, whole(mpfr_ceil), -3, 3, 0.0, {1.0}}, 0.0},
          {"round", {bounds::linear_round, whole(mpfr_roundeven), -3, 3, 0.0, {0.5}}, 0.0},
          {"sign", {bounds::linear_sign, sign, -3, 3, 0.0, {0.0}}, 0.0},
          {"square", {bounds::linear_power, real_power(2.0), -4, 4, 2.0, {0.0}}},
          {"cube", {bounds::linear_power, real_power(3.0), -4, 4, 3.0, {0.0}}},
          {"seventh power", {bounds::linear_power, real_power(7.0), -2, 2, 7.0, {0.0}}},
          {"eighth power", {bounds::linear_power, real_power(8.0), -2, 2, 8.0, {0.0}}},
          {"power 2.5", {bounds::linear_power, real_power(2.5), 0, 4, 2.5}},
          {"power 1.5", {bounds::linear_power, real_power(1.5), 0, 4, 1.5}, 1.3},
          {"power 1/3", {bounds::linear_power, real_power(1.0 / 3.0), 0, 4, 1.0 / 3.0}},
          {"power 0", {bounds::linear_power, real_power(0.0), -4, 4, 0.0}},
          {"power 1", {bounds::linear_power, real_power(1.0), -4, 4, 1.0}},
          {"power -1", {bounds::linear_power, real_power(-1.0), -4, 0, -1.0}},
          {"power -2", {bounds::linear_power, real_power(-2.0), -4, 0, -2.0}},
          {"power -0.3", {bounds::linear_power, real_power(-0.3), 0, 4, -0.3}},
          {"clip", {clipped(-0.5, 1.0), clip(-0.5, 1.0), -4, 4, 0.0, {-0.5, 1.0}}},
          {"clip from below", {clipped(0.5, INFINITY), clip(0.5, 1e300), -4, 4, 0.0, {0.5}}},
          {"clip to a point", {clipped(1.0, -0.5), clip(1.0, -0.5), -4, 4, 0.0, {-0.5, 1.0}}, 0.0},
          {"thresholded relu", {bounds::linear_thresholded_relu, thresholded(0.5), -2, 2, 0.5, {0.5}}, 0.0},
          {"thresholded relu below 0", {bounds::linear_thresholded_relu, thresholded(-0.5), -2, 2, -0.5, {-0.5}}, 0.0},
          {"thresholded relu at 0", {bounds::linear_thresholded_relu, thresholded(0.0), -2, 2, 0.0, {0.0}}}};
}

}  // namespace checks
