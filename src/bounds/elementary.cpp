#include "bounds/elementary.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double overflow_threshold = 709.78;    // e^709.78 < 2^1024
constexpr double underflow_threshold = -745.13;  // e^-745.13 > 2^-1075
constexpr double subnormal_threshold = -708.0;   // e^-708 > 2^-1022
constexpr double inverse_ln2 = 0x1.71547652b82fep+0;
constexpr double ln2_high = 0x1.62e42feep-1;  // 33 bits: products with |k| < 2^11 are exact
constexpr double ln2_low = 0x1.a39ef35793c76p-33;
constexpr double relative_margin = 0x1p-47;

/// e^x as significand 2^exponent with relative error below 2^-48 (T-09).
struct Scaled {
  double significand;
  int exponent;
};

Scaled approx_exp(double x) {
  const double k = std::nearbyint(x * inverse_ln2);
  const double r = (x - k * ln2_high) - k * ln2_low;
  constexpr int degree = 14;
  double sum = 1.0;
  for (int i = degree; i >= 1; --i) sum = 1.0 + sum * r / static_cast<double>(i);
  return {sum, static_cast<int>(k)};
}

}  // namespace

double exp_up(double x) {
  if (x == 0.0) return 1.0;
  if (!(x <= overflow_threshold)) return infinity;
  if (x < underflow_threshold) return std::numeric_limits<double>::denorm_min();
  const Scaled y = approx_exp(x);
  const double value = std::ldexp(y.significand * (1.0 + relative_margin), y.exponent);
  return x < subnormal_threshold ? next_up(value) : value;
}

double exp_down(double x) {
  if (x == 0.0) return 1.0;
  if (!(x >= underflow_threshold)) return 0.0;
  if (x > overflow_threshold) return std::numeric_limits<double>::max() / 2.0;
  const Scaled y = approx_exp(x);
  const double value = std::ldexp(y.significand * (1.0 - relative_margin), y.exponent);
  return x < subnormal_threshold ? next_down(value) : value;
}

double expm1_up(double x) {
  if (!(x <= 1.0)) return exp_up(x);
  constexpr double e_minus_2 = 0.7182818284590453;  // rounded up
  return add_up(x, mul_up(e_minus_2, mul_up(x, x)));
}

}  // namespace driftbound::bounds
