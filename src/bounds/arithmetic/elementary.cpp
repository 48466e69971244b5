#include "bounds/arithmetic/elementary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/arithmetic/numbers.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr double overflow_threshold = 709.78;    // e^709.78 < 2^1024
constexpr double underflow_threshold = -745.13;  // e^-745.13 > 2^-1075
constexpr double subnormal_threshold = -708.0;   // e^-708 > 2^-1022
constexpr double inverse_ln2 = 0x1.71547652b82fep+0;
constexpr double ln2_high = 0x1.62e42feep-1;  // 33 bits: products with |k| < 2^11 are exact
constexpr double ln2_low = 0x1.a39ef35793c76p-33;
constexpr double ln2_up = 0x1.62e42fefa39f0p-1;
constexpr double ln2_down = 0x1.62e42fefa39efp-1;
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
  if (!(x <= 0x1p-8)) return sub_up(exp_up(x), 1.0);
  constexpr double e_minus_2 = 0.7182818284590453;  // rounded up
  return add_up(x, mul_up(e_minus_2, mul_up(x, x)));
}

double exp_remainder_up(double x) {
  if (!(x <= overflow_threshold)) return infinity;
  if (!(x <= 0x1p-8)) return sub_up(expm1_up(x), x);
  constexpr double third = 0.33333333333333337;  // rounded up
  return mul_up(mul_up(0.5, mul_up(x, x)), add_up(1.0, mul_up(third, expm1_up(x))));
}

double log1p_up(double x) {
  if (!(x < infinity)) return infinity;
  constexpr double small = 0x1p-4;
  double factor = 1.0;
  while (x > small) {  // log(1 + x) = 2 log(sqrt(1 + x))
    x = div_up(x, add_down(1.0, sqrt_down(add_down(1.0, x))));
    factor *= 2.0;
  }
  return mul_up(factor, div_up(mul_up(x, add_up(6.0, x)), add_down(6.0, mul_down(4.0, x))));
}

double log_up(double x) {
  if (!(x < infinity)) return infinity;
  if (!(x > 0.0)) return -infinity;
  int exponent = 0;
  const double significand = 2.0 * std::frexp(x, &exponent);  // x = significand 2^(exponent - 1)
  const double n = exponent - 1;
  const double powers_of_two = mul_up(n, n > 0.0 ? ln2_up : ln2_down);
  return add_up(powers_of_two, log1p_up(significand - 1.0));
}

double power_up(double x, double p) {
  return x == 0.0 ? 0.0 : exp_up(mul_up(p, log_up(x)));
}

double atan_up(double x) {
  constexpr double half_pi = 1.5707963267948968;  // rounded up
  if (!(x < 1e150)) return half_pi;
  for (int halving = 0; halving < 3; ++halving) {  // atan(x) = 2 atan(x / (1 + sqrt(1 + x^2)))
    x = div_up(x, add_down(1.0, sqrt_down(add_down(1.0, mul_down(x, x)))));
  }
  // x - x^3/3 + x^5/5
  constexpr double third = 0.333333333333333;  // rounded down
  const double decrease = mul_down(mul_down(x, x), sub_down(third, mul_up(0.2000000000000001, mul_up(x, x))));
  return std::min(half_pi, mul_up(8.0, mul_up(x, sub_up(1.0, decrease))));
}

}  // namespace driftbound::bounds
