#pragma once

// Sums of two doubles in the lanes of vectors (T-90), written once and compiled once per instruction set. Everything
// here has internal linkage and calls no inline function of another header: code compiled for a newer processor must
// not be shared with the rest of the program.

#include <cstddef>
#include <cstdint>

#include "num/kernels/double_double_constants.hpp"

namespace driftbound::num {
namespace {

/// Set: Doubles, Integers and Naturals, vectors of Set::lanes elements; fma, sqrt and gather.
template <class Set>
struct DoubleDoubleArithmetic {
  using D = typename Set::Doubles;
  using I = typename Set::Integers;
  using N = typename Set::Naturals;

  /// high + low, unevaluated.
  struct Pair {
    D high, low;
  };

  static D load(const double* p) {
    D x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  static void store(D x, double* p) { __builtin_memcpy(p, &x, sizeof x); }
  static D all(double x) { return D{} + x; }
  static Pair all(const double (&x)[2]) { return {all(x[0]), all(x[1])}; }
  static D fma(D x, D y, D z) { return Set::fma(x, y, z); }
  static I bits(D x) { return __builtin_bit_cast(I, x); }
  static D from_bits(I x) { return __builtin_bit_cast(D, x); }
  static D abs(D x) { return from_bits(bits(x) & INT64_MAX); }

  static bool any(I mask) {
    std::int64_t lanes[sizeof mask / sizeof(std::int64_t)], some = 0;
    __builtin_memcpy(lanes, &mask, sizeof mask);
    for (const std::int64_t lane : lanes) some |= lane;
    return some != 0;
  }
  static Pair choose(I mask, Pair x, Pair y) { return {mask ? x.high : y.high, mask ? x.low : y.low}; }
  static Pair scaled(Pair x, D power_of_two) { return {x.high * power_of_two, x.low * power_of_two}; }
  /// x where the sign bit of `sign` is 0, else -x.
  static Pair with_sign(Pair x, D sign) {
    const I bit = bits(sign) & INT64_MIN;
    return {from_bits(bits(x.high) ^ bit), from_bits(bits(x.low) ^ bit)};
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
    return {product, fma(x, y, -product)};
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
    return {p.high, fma(x.high, y.low, fma(x.low, y.high, p.low))};
  }
  static Pair product(Pair x, Pair y) {
    const Pair p = loose_product(x, y);
    return fast_two_sum(p.high, p.low);
  }
  static Pair product(D x, Pair y) {
    const Pair p = two_product(x, y.high);
    return fast_two_sum(p.high, fma(x, y.low, p.low));
  }

  static Pair quotient(Pair x, Pair y) {
    const D q = x.high / y.high;
    const D rest = fma(-q, y.high, x.high) + fma(-q, y.low, x.low);
    return fast_two_sum(q, rest / y.high);
  }

  static Pair square_root(Pair x) {
    const D root = Set::sqrt(x.high);
    const D rest = fma(-root, root, x.high) + x.low;
    return fast_two_sum(root, rest / (root + root));
  }

  /// c + t q, |c| >= |t q| or c = 0; loose.
  static Pair step(Pair c, Pair t, Pair q) {
    const Pair p = two_product(t.high, q.high), s = fast_two_sum(c.high, p.high);
    return {s.high, fma(t.high, q.low, s.low + (c.low + fma(t.low, q.high, p.low)))};
  }
  /// The same for any c.
  static Pair any_step(Pair c, Pair t, Pair q) {
    const Pair p = two_product(t.high, q.high), s = two_sum(c.high, p.high);
    return {s.high, fma(t.high, q.low, s.low + (c.low + fma(t.low, q.high, p.low)))};
  }

  /// By Horner's rule, a loose sum.
  template <std::size_t pairs, std::size_t singles>
  static Pair polynomial(Pair t, const Polynomial<pairs, singles>& c) {
    D tail = all(c.single[singles - 1]);
    for (std::size_t j = singles - 1; j-- > 0;) tail = fma(tail, t.high, all(c.single[j]));
    Pair value = {tail, D{}};
    for (std::size_t j = pairs; j-- > 0;) value = step({all(c.high[j]), all(c.low[j])}, t, value);
    return value;
  }
};

}  // namespace
}  // namespace driftbound::num
