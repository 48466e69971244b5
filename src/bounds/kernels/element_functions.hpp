#pragma once

// Elementary functions of vectors of doubles; Gelu and erf with two derivatives. Error bounds: T-80, T-88 and T-124.

#include <cstddef>
#include <cstdint>

#include "bounds/kernels/gelu_constants.hpp"
#include "simd/vector.hpp"

namespace driftbound::bounds {
namespace {

using D = simd::Native<double>;
using I = D::Mask;
using simd::bits_as, simd::magnitude, simd::with_sign_of;

/// If `fuses` is set, c + a b is rounded once. The bits then differ from those of the unfused build; T-80 holds for
/// both.
template <bool fuses>
struct ElementFunctions {
  /// c + a b
  static D add_product(D c, D a, D b) { return fuses ? simd::fma(a, b, c) : c + a * b; }

  /// c0 + c1 x + c2 x^2 + ... by Horner's rule.
  static D polynomial(D, double c0) { return c0; }
  template <class... Rest>
  static D polynomial(D x, double c0, Rest... rest) {
    return add_product(c0, x, polynomial(x, rest...));
  }

  struct Exponential {
    D scale, expm1;  ///< e^x = scale (1 + expm1)
  };

  static Exponential reduced_exp(D x) {
    constexpr double log2_e = 0x1.71547652b82fep+0, to_integer = 0x1.8p52;
    constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    const D shifted = add_product(to_integer, x, log2_e);  // its last bits hold the integer n
    const D n = shifted - to_integer;
    const D r = add_product(add_product(x, n, -ln2_high), n, -ln2_low);
    const D tail = polynomial(r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                              1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
    return {bits_as<double>((bits_of(shifted) + 1023) << 52), add_product(r, r * r, tail)};
  }

  static D exp(D x) {
    const Exponential e = reduced_exp(x);
    return e.scale * (1.0 + e.expm1);
  }

  static D expm1(D x) {
    const Exponential e = reduced_exp(x);
    return add_product(e.scale - 1.0, e.scale, e.expm1);
  }

  static D log1p(D x) {
    const D s = x / (2.0 + x), z = s * s, twice = 2.0 * s;
    return add_product(twice, twice * z,
                       polynomial(z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                                  1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29, 1.0 / 31, 1.0 / 33));
  }

  static D tanh(D x) {
    const D decrease = expm1(-2.0 * magnitude(x));
    return with_sign_of(decrease / (2.0 + decrease), x);
  }

  static D sigmoid(D x) {
    const D e = exp(-magnitude(x));
    return where(x < 0.0, e, 1.0) / (1.0 + e);
  }

  static D softplus(D x) {
    const D small = log1p(exp(-magnitude(x)));
    return where(x < 0.0, small, x + small);
  }

  /// sin(x + more pi/2).
  static D sine(D x, std::int64_t more) {
    constexpr double two_over_pi = 0x1.45f306dc9c883p-1, to_integer = 0x1.8p52;
    constexpr double high = 0x1.921fb544p+0, middle = 0x1.0b4611a6p-34, low = 0x1.3198a2e037073p-69;
    const D shifted = add_product(to_integer, x, two_over_pi);  // its last bits hold the number of quarter turns
    const D n = shifted - to_integer;
    const D r = add_product(add_product(add_product(x, n, -high), n, -middle), n, -low);
    const D z = r * r;
    const D sin = add_product(r, r * z,
                              polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                         1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000));
    const D cos = add_product(1.0 - 0.5 * z, z * z,
                              polynomial(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                         -1.0 / 87178291200, 1.0 / 20922789888000));
    const I turns = bits_of(shifted) + more;
    const D value = where((turns & 1) != 0, cos, sin);
    return bits_as<double>(bits_of(value) ^ ((turns & 2) << 62));
  }

  static D at_most(D x, double limit) { return smaller(x, D(limit)); }

  /// A function with its first two derivatives.
  struct Bend {
    D value, slope, curvature;
  };

  /// f(x) = x s(x) with s(-x) = 1 - s(x): share_below = s(-|x|), moved = |x| s'(x), curvature = f''(x). The value for
  /// x < -most is that with x = -most as the first factor.
  static Bend gated(D x, double most, D share_below, D moved, D curvature) {
    const D share = where(x < 0.0, share_below, 1.0 - share_below);
    const D within = where(x < 0.0, -at_most(-x, most), x);
    return {within * share, where(x < 0.0, share - moved, share + moved), curvature};
  }

  /// The first 10 terms of the power series in t of (integral of the normal density from a - t to a) / (density at a).
  static D integral(D a, D t) {
    const D step = t * a, square = t * t;
    D before = t, term = (step * 0.5) * t, sum = before + term;
    for (int n = 2; n < 10; ++n) {
      const D next = (step * (1.0 / (n + 1))) * term - (square * ((n - 1.0) / ((n + 1.0) * n))) * before;
      before = term;
      term = next;
      sum = sum + term;
    }
    return sum;
  }

  static constexpr double most_of_normal = 9.0;

  /// The normal distribution at -a and its density there, for 0 <= a <= most_of_normal.
  struct Normal {
    D below, density;
  };
  static Normal normal(D a) {
    constexpr double to_integer = 0x1.8p52;
    const D shifted = a * 8.0 + to_integer, nearest = (shifted - to_integer) * 0.125;
    const I place = bits_of(shifted) - __builtin_bit_cast(std::int64_t, to_integer);
    const D tail = simd::gathered(normal_tails, place);
    const D density = exp(a * a * -0.5) * normal_density;
    return {tail - density * integral(a, a - nearest), density};
  }

  static Bend gelu(D x) {
    const D a = at_most(magnitude(x), most_of_normal);
    const Normal at = normal(a);
    return gated(x, most_of_normal, at.below, a * at.density, at.density * (2.0 - a * a));
  }

  /// erf(x) = 1 - 2 Phi(-x sqrt 2) for x >= 0. The curvature has the sign of -f''(|x|).
  static Bend erf(D x) {
    constexpr double root_two = 0x1.6a09e667f3bcdp+0;
    const D a = at_most(magnitude(x) * root_two, most_of_normal);
    const Normal at = normal(a);
    const D slope = at.density * (2.0 * root_two);
    return {with_sign_of(1.0 - 2.0 * at.below, x), slope, slope * (a * root_two)};
  }

  static Bend gelu_tanh(D x) {
    constexpr double most = 12.0;
    const D a = at_most(magnitude(x), most), square = a * a, line = a * (gelu_step + gelu_bend * square);
    const D e = exp(-line), below = e / (1.0 + e), spread = below / (1.0 + e);
    const D rate = gelu_step + (3.0 * gelu_bend) * square, curve = (6.0 * gelu_bend) * square;
    const D bend = 2.0 * rate + (curve - (a * (rate * rate)) * (1.0 - 2.0 * below));
    return gated(x, most, below, a * rate * spread, spread * bend);
  }
};

/// Each struct holds a function and the range [lowest, highest] of its arguments.
template <bool fuses>
struct Exp {
  static constexpr double lowest = -708.0, highest = 709.0;
  static D of(D x) { return ElementFunctions<fuses>::exp(x); }
};
template <bool fuses>
struct Expm1 {
  static constexpr double lowest = -708.0, highest = 709.0;
  static D of(D x) { return ElementFunctions<fuses>::expm1(x); }
};
template <bool fuses>
struct Tanh {
  static constexpr double lowest = -350.0, highest = 350.0;
  static D of(D x) { return ElementFunctions<fuses>::tanh(x); }
};
template <bool fuses>
struct Sigmoid {
  static constexpr double lowest = -700.0, highest = 700.0;
  static D of(D x) { return ElementFunctions<fuses>::sigmoid(x); }
};
template <bool fuses>
struct Softplus {
  static constexpr double lowest = -700.0, highest = 700.0;
  static D of(D x) { return ElementFunctions<fuses>::softplus(x); }
};
template <bool fuses>
struct Sin {
  static constexpr double lowest = -0x1p20, highest = 0x1p20;
  static D of(D x) { return ElementFunctions<fuses>::sine(x, 0); }
};
template <bool fuses>
struct Cos {
  static constexpr double lowest = -0x1p20, highest = 0x1p20;
  static D of(D x) { return ElementFunctions<fuses>::sine(x, 1); }
};

/// y = F(x) for n numbers. Returns false if one of them is not covered: an x is covered if it is 0, or if |x| >= 2^-500
/// and x lies within F's range.
template <class F>
bool function(const double* x, double* y, std::size_t n) {
  constexpr double least = 0x1p-500;
  I covered = ~I{};
  simd::in_vectors<D::lanes>(n, [&](std::size_t i, auto count) {
    const D at = D::load(x + i, count);
    covered &= (at >= F::lowest) & (at <= F::highest) & ((magnitude(at) >= least) | (at == 0.0));
    F::of(at).store(y + i, count);
  });
  return simd::every(covered);
}

}  // namespace
}  // namespace driftbound::bounds
