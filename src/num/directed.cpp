#include "driftbound/num/directed.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "num/error_free.hpp"
#include "num/rounding_decisions.hpp"

#ifdef __FAST_MATH__
#error "driftbound's bounds are wrong under -ffast-math: build without it (cmake/FloatingPoint.cmake)"
#endif

namespace driftbound {
namespace {

constexpr double largest = std::numeric_limits<double>::max();

// From here on the residuals of *, / and sqrt are doubles; below, the operands are scaled first.
constexpr double residual_is_exact_from = 0x1p-960;
constexpr double far_from_overflow = 0x1p1000;

/// A result to nearest and a residual with the sign of (exact result - value).
struct Rounded {
  double value;
  double residual;
};

double up(const Rounded& r) {
  return r.residual > 0.0 ? num::theorems::step_up(r.value) : r.value;
}
double down(const Rounded& r) {
  return r.residual < 0.0 ? num::theorems::step_down(r.value) : r.value;
}

Rounded exact(double value) {
  return {value, 0.0};
}

/// Finite operands whose exact result lies beyond the largest double.
Rounded overflowed(double rounded) {
  return {std::copysign(largest, rounded), rounded};
}

/// x = significand 2^exponent with 1/2 <= |significand| < 1.
struct Scaled {
  explicit Scaled(double x) : significand(std::frexp(x, &exponent)) {}
  int exponent = 0;
  double significand;
};

Rounded add(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return std::isfinite(a) && std::isfinite(b) ? overflowed(sum) : exact(sum);
  if (std::abs(a) < std::abs(b)) std::swap(a, b);
  return {sum, b - (sum - a)};
}

double scaled_product_residual(double a, double b, double product) {
  const Scaled x(a);
  const Scaled y(b);
  return std::fma(x.significand, y.significand, -std::ldexp(product, -(x.exponent + y.exponent)));
}

Rounded multiply(double a, double b) {
  const double product = a * b;
  if (!std::isfinite(product)) return std::isfinite(a) && std::isfinite(b) ? overflowed(product) : exact(product);
  if (std::abs(product) >= residual_is_exact_from) return {product, std::fma(a, b, -product)};
  if (a == 0.0 || b == 0.0) return exact(product);
  return {product, scaled_product_residual(a, b, product)};
}

double scaled_quotient_residual(double a, double b, double quotient) {
  const Scaled x(a);
  const Scaled y(b);
  return std::fma(-std::ldexp(quotient, y.exponent - x.exponent), y.significand, x.significand);
}

Rounded divide(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0.0 || b == 0.0) return exact(quotient);
  if (std::isinf(quotient)) return overflowed(quotient);
  const double remainder =
      std::abs(a) >= residual_is_exact_from ? std::fma(-quotient, b, a) : scaled_quotient_residual(a, b, quotient);
  return {quotient, std::signbit(b) ? -remainder : remainder};
}

Rounded square_root(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root) || a == 0.0) return exact(root);
  if (a >= residual_is_exact_from) return {root, std::fma(-root, root, a)};
  const double scaled_root = root * 0x1p200;
  return {root, std::fma(-scaled_root, scaled_root, a * 0x1p400)};
}

double fused_residual(double a, double b, double c, double rounded) {
  const num::ErrorFree product = num::two_product(a, b);
  return num::sign_of_sum<4>({product.value, product.error, c, -rounded});
}

/// As fused_residual, with a b scaled to [1/4, 1): nothing over- or underflows. All a b - rounded are multiples of
/// 2^-106 there unless 0, so an addend far below may be replaced by a larger one of the same sign.
double scaled_fused_residual(double a, double b, double c, double rounded) {
  const Scaled x(a);
  const Scaled y(b);
  const int exponent = x.exponent + y.exponent;
  const int addend_exponent = c == 0.0 ? exponent : Scaled(c).exponent;
  if (addend_exponent > exponent + 200) return x.significand * y.significand;  // rounded == c
  const double addend = addend_exponent < exponent - 200 ? std::copysign(0x1p-200, c) : std::ldexp(c, -exponent);
  return fused_residual(x.significand, y.significand, addend, std::ldexp(rounded, -exponent));
}

Rounded fused(double a, double b, double c) {
  const double rounded = std::fma(a, b, c);
  if (!std::isfinite(rounded)) {
    return std::isfinite(a) && std::isfinite(b) && std::isfinite(c) ? overflowed(rounded) : exact(rounded);
  }
  if (a == 0.0 || b == 0.0) return exact(rounded);
  const double product = std::abs(a * b);
  if (product >= residual_is_exact_from && product <= far_from_overflow && std::abs(c) <= far_from_overflow) {
    return {rounded, fused_residual(a, b, c, rounded)};
  }
  return {rounded, scaled_fused_residual(a, b, c, rounded)};
}

}  // namespace

double add_up(double a, double b) {
  return up(add(a, b));
}
double add_down(double a, double b) {
  return down(add(a, b));
}
double sub_up(double a, double b) {
  return up(add(a, -b));
}
double sub_down(double a, double b) {
  return down(add(a, -b));
}
double mul_up(double a, double b) {
  return up(multiply(a, b));
}
double mul_down(double a, double b) {
  return down(multiply(a, b));
}
double div_up(double a, double b) {
  return up(divide(a, b));
}
double div_down(double a, double b) {
  return down(divide(a, b));
}
double sqrt_up(double a) {
  return up(square_root(a));
}
double sqrt_down(double a) {
  return down(square_root(a));
}
double fma_up(double a, double b, double c) {
  return up(fused(a, b, c));
}
double fma_down(double a, double b, double c) {
  return down(fused(a, b, c));
}

double next_up(double x) {
  if (!std::isfinite(x)) return x;
  if (x == 0.0) return std::numeric_limits<double>::denorm_min();
  const auto bits = std::bit_cast<std::uint64_t>(x);
  return std::bit_cast<double>(x > 0.0 ? bits + 1 : bits - 1);
}

double next_down(double x) {
  return -next_up(-x);
}

}  // namespace driftbound
