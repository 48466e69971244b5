#include "driftbound/num/directed.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "num/rounding_decisions.hpp"

#ifdef __FAST_MATH__
#error "driftbound's bounds are wrong under -ffast-math: build without it (cmake/FloatingPoint.cmake)"
#endif

namespace driftbound {
namespace {

constexpr double largest = std::numeric_limits<double>::max();

// From here on the residuals of *, / and sqrt are doubles; below, the operands are scaled first.
constexpr double residual_is_exact_from = 0x1p-960;

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
