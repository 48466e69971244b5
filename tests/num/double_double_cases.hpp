#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "num/double_double.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"

/// The functions in double-double with their domains and their values in MPFR, for tests and campaigns.
namespace driftbound_tests {

using namespace driftbound::num;
using F = DoubleDoubleFunction;

inline Real exp_of(const Real& x) {
  return x.apply(mpfr_exp);
}

inline Real sigmoid_of(const Real& x) {
  return Real(1.0) / (Real(1.0) + exp_of(-x));
}

inline Real gelu_of(const Real& x) {
  return x / Real(2.0) * (-(x / Real(2.0).apply(mpfr_sqrt))).apply(mpfr_erfc);
}

inline Real pi() {
  return Real(4.0) * Real(1.0).apply(mpfr_atan);
}

inline Real gelu_tanh_of(const Real& x) {
  const Real cubic = x + Real(44715.0) / Real(1e6) * x * x * x;
  return x * sigmoid_of(Real(2.0) * (Real(2.0) / pi()).apply(mpfr_sqrt) * cubic);
}

struct Case {
  F f;
  std::string name, theorem;
  double low, high;  ///< of the domain
  double core;       ///< where most of what happens is within
  Real (*exact)(const Real&);
  double recorded;
};

inline constexpr double huge = 0x1p1000, any = std::numeric_limits<double>::max();

inline const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {F::exp, "exp", OF_THEOREM("T-91"), -any, 709.0, 20.0, exp_of, 0.127},
      {F::expm1, "expm1", OF_THEOREM("T-91"), -any, 709.0, 2.0, [](const Real& x) { return x.apply(mpfr_expm1); },
       0.105},
      {F::log, "log", OF_THEOREM("T-92"), 0x1p-900, huge, 4.0, [](const Real& x) { return x.apply(mpfr_log); }, 0.100},
      {F::log1p, "log1p", OF_THEOREM("T-92"), -1.0 + 0x1p-53, huge, 4.0,
       [](const Real& x) { return x.apply(mpfr_log1p); }, 0.108},
      {F::tanh, "tanh", OF_THEOREM("T-92"), -any, any, 2.0, [](const Real& x) { return x.apply(mpfr_tanh); }, 0.131},
      {F::sigmoid, "sigmoid", OF_THEOREM("T-92"), -any, any, 20.0, sigmoid_of, 0.201},
      {F::softplus, "softplus", OF_THEOREM("T-92"), -any, huge, 20.0,
       [](const Real& x) { return 700.0 < x.to_double() ? x : exp_of(x).apply(mpfr_log1p); }, 0.112},
      {F::sin, "sin", OF_THEOREM("T-93"), -0x1p20, 0x1p20, 4.0, [](const Real& x) { return x.apply(mpfr_sin); }, 0.126},
      {F::cos, "cos", OF_THEOREM("T-93"), -0x1p20, 0x1p20, 4.0, [](const Real& x) { return x.apply(mpfr_cos); }, 0.099},
      {F::erf, "erf", OF_THEOREM("T-94"), -any, any, 3.0, [](const Real& x) { return x.apply(mpfr_erf); }, 0.089},
      {F::gelu, "gelu", OF_THEOREM("T-94"), -huge, huge, 6.0, gelu_of, 0.123},
      {F::gelu_tanh, "gelu_tanh", OF_THEOREM("T-94"), -huge, huge, 6.0, gelu_tanh_of, 0.112},
      {F::sqrt, "sqrt", OF_THEOREM("T-90"), 0.0, huge, 4.0, [](const Real& x) { return x.apply(mpfr_sqrt); }, 0.559},
      {F::reciprocal, "reciprocal", OF_THEOREM("T-90"), -0x1p900, 0x1p900, 4.0,
       [](const Real& x) { return Real(1.0) / x; }, 0.557},
  };
  return all;
}

struct Pairs {
  std::vector<double> high, low;

  explicit Pairs(std::size_t count = 0) : high(count), low(count) {}
  std::size_t size() const { return high.size(); }
  void add(double h, double l) {
    high.push_back(h);
    low.push_back(l);
  }
};

/// Arguments all over a domain, with low parts of every kind.
class Arguments {
public:
  Arguments(const Case& of, std::uint64_t seed) : case_(of), engine_(seed) {}

  Pairs draw(int count) {
    Pairs x;
    for (int i = 0; i < count; ++i) {
      const double high = neighbour(point());
      if (high == 0.0 ? case_.f == F::reciprocal : std::abs(high) < 0x1p-900) continue;
      if (high >= case_.low && high <= case_.high) x.add(high, low_part(high));
      if (i % 4 == 0) add_near_multiple(x);
    }
    return x;
  }

private:
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  double sign() { return between(0, 1) == 0 ? 1.0 : -1.0; }

  double point() {
    switch (between(0, 7)) {
      case 0:
        return uniform(-case_.core, case_.core);
      case 1:  // every magnitude
        return sign() * std::exp2(uniform(-899.0, std::log2(std::min(case_.high, 0x1p1000))));
      case 2:
        return uniform(std::max(case_.low, -1000.0), std::min(case_.high, 1000.0));
      case 3:  // where logarithms change their power of two, and near 1
        return std::ldexp(between(0, 1) == 0 ? std::sqrt(0.5) : 1.0, between(-3, 3)) +
               sign() * std::exp2(-uniform(1, 53));
      case 4:  // where exp changes its
        return (between(-40, 40) + 0.5) * std::log(2.0) * (between(0, 1) == 0 ? 1.0 : 0.5);
      case 5:  // between two pieces of erf
        return (between(-160, 160) + 0.5) / 16.0 * (between(0, 1) == 0 ? 1.0 : std::sqrt(2.0));
      case 6:
        return static_cast<double>(static_cast<float>(uniform(-case_.core, case_.core)));
      default:
        return between(-64, 64) / 8.0;
    }
  }

  double neighbour(double x) {
    for (int steps = between(-2, 2); steps != 0; steps -= steps > 0 ? 1 : -1)
      x = std::nextafter(x, steps > 0 ? any : -any);
    return x;
  }

  double low_part(double high) {
    const double most = 0x1p-53 * high;
    switch (between(0, 4)) {
      case 0:
        return 0.0;
      case 1:
        return most;
      case 2:
        return -most;
      case 3:
        return sign() * most * std::exp2(-uniform(0.0, 60.0));
      default:
        return uniform(-1.0, 1.0) * most;
    }
  }

  /// Multiples of ln 2 / 2 and pi / 2 to all bits of a pair.
  void add_near_multiple(Pairs& x) {
    const bool angle = case_.f == F::sin || case_.f == F::cos;
    const double n = angle ? std::floor(uniform(-600000.0, 600000.0)) : between(-900, 900);
    const Real multiple = Real(n / 2.0) * (angle ? pi() : Real(2.0).apply(mpfr_log));
    const double high = multiple.to_double();
    if (high >= case_.low && high <= case_.high && high != 0.0) x.add(high, (multiple - Real(high)).to_double());
  }

  const Case& case_;
  std::mt19937_64 engine_;
};

inline Pairs evaluated(F f, const Pairs& x, const DoubleDoubleKernels& kernels = fastest_double_double_kernels()) {
  Pairs y(x.size());
  evaluate(f, x.high, x.low, y.high, y.low, kernels);
  return y;
}

/// The error over what is allowed; more than 1 where there is no value.
inline double share_of_bound(const Case& c, double x_high, double x_low, double y_high, double y_low) {
  if (!(std::abs(y_low) <= 0x1p-53 * std::abs(y_high))) return HUGE_VAL;
  const Real x = Real(x_high) + Real(x_low), exact = c.exact(x), error = abs(Real(y_high) + Real(y_low) - exact);
  const DoubleDoubleError stated = error_of(c.f);
  const Real from_high_parts(error_bound(stated, x_high, y_high));
  if (!(error <= from_high_parts)) return HUGE_VAL;
  if (y_high == 0.0 && stated.of_nothing > 0.0) return error <= Real(stated.of_nothing) ? 0.0 : HUGE_VAL;
  const bool in_tail = stated.in_tail > 0.0 && x_high < gelu_tail;
  const Real of_argument = in_tail ? Real(stated.in_tail) * abs(exact) : Real(stated.of_argument) * abs(x);
  const Real bound = Real(stated.relative) * abs(exact) + of_argument + Real(stated.absolute);
  if (!(from_high_parts <= Real(1.0 + 0x1p-30) * bound)) return HUGE_VAL;
  if (error <= Real(0.0)) return 0.0;
  return (error / bound).to_double();
}

}  // namespace driftbound_tests
