#pragma once

// Sums of two doubles in the lanes of vectors (T-90).

#include <cstddef>
#include <cstdint>

#include "num/kernels/double_double_constants.hpp"
#include "simd/vector.hpp"

namespace driftbound::num {
namespace {

/// What the functions of pairs are made of.
struct DoubleDoubleArithmetic {
  using D = simd::Native<double>;
  using I = D::Mask;

  /// high + low, unevaluated.
  struct Pair {
    D high, low;
  };

  static Pair all(const double (&x)[2]) { return {x[0], x[1]}; }
  static Pair choose(I mask, Pair x, Pair y) { return {where(mask, x.high, y.high), where(mask, x.low, y.low)}; }
  static Pair scaled(Pair x, D power_of_two) { return {x.high * power_of_two, x.low * power_of_two}; }
  /// x where the sign bit of `sign` is 0, else -x.
  static Pair with_sign(Pair x, D sign) {
    const I bit = bits_of(sign) & INT64_MIN;
    return {simd::bits_as<double>(bits_of(x.high) ^ bit), simd::bits_as<double>(bits_of(x.low) ^ bit)};
  }
  static Pair abs(Pair x) { return with_sign(x, x.high); }

  /// x + y, exactly.
  static Pair two_sum(D x, D y) {
    const D sum = x + y, y_part = sum - x;
    return {sum, (x - (sum - y_part)) + (y - y_part)};
  }
  /// x + y, exactly if |x| >= |y| or x = 0.
  static Pair fast_two_sum(D x, D y) {
    const D sum = x + y;
    return {sum, y - (sum - x)};
  }
  /// x y, exactly.
  static Pair two_product(D x, D y) {
    const D product = x * y;
    return {product, simd::fma(x, y, -product)};
  }

  static Pair sum(D x, Pair y) {
    const Pair s = two_sum(x, y.high);
    return two_sum(s.high, s.low + y.low);
  }
  static Pair sum(Pair x, Pair y) {
    const Pair s = two_sum(x.high, y.high);
    return two_sum(s.high, s.low + (x.low + y.low));
  }

  /// Its low part may be some units in the last place of the high one.
  static Pair loose_product(Pair x, Pair y) {
    const Pair p = two_product(x.high, y.high);
    return {p.high, simd::fma(x.high, y.low, simd::fma(x.low, y.high, p.low))};
  }
  static Pair product(Pair x, Pair y) {
    const Pair p = loose_product(x, y);
    return fast_two_sum(p.high, p.low);
  }
  static Pair product(D x, Pair y) {
    const Pair p = two_product(x, y.high);
    return fast_two_sum(p.high, simd::fma(x, y.low, p.low));
  }

  static Pair quotient(Pair x, Pair y) {
    const D q = x.high / y.high;
    const D rest = simd::fma(-q, y.high, x.high) + simd::fma(-q, y.low, x.low);
    return fast_two_sum(q, rest / y.high);
  }

  static Pair square_root(Pair x) {
    const D root = simd::square_root(x.high);
    const D rest = simd::fma(-root, root, x.high) + x.low;
    return fast_two_sum(root, rest / (root + root));
  }

  /// c + t q, |c| >= |t q| or c = 0; loose.
  static Pair step(Pair c, Pair t, Pair q) {
    const Pair p = two_product(t.high, q.high), s = fast_two_sum(c.high, p.high);
    return {s.high, simd::fma(t.high, q.low, s.low + (c.low + simd::fma(t.low, q.high, p.low)))};
  }
  /// The same for any c.
  static Pair any_step(Pair c, Pair t, Pair q) {
    const Pair p = two_product(t.high, q.high), s = two_sum(c.high, p.high);
    return {s.high, simd::fma(t.high, q.low, s.low + (c.low + simd::fma(t.low, q.high, p.low)))};
  }

  /// By Horner's rule, a loose sum.
  template <std::size_t pairs, std::size_t singles>
  static Pair polynomial(Pair t, const Polynomial<pairs, singles>& c) {
    D tail = c.single[singles - 1];
    for (std::size_t j = singles - 1; j-- > 0;) tail = simd::fma(tail, t.high, D(c.single[j]));
    Pair value = {tail, D{}};
    for (std::size_t j = pairs; j-- > 0;) value = step({c.high[j], c.low[j]}, t, value);
    return value;
  }
};

}  // namespace
}  // namespace driftbound::num
