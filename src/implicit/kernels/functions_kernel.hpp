#pragma once

// Functions over blocks with errors of a few units of 1, in fewer steps than those of T-80. As blocks_kernel.hpp:
// internal linkage, no inline function of a header that others include.

#include <cstddef>
#include <cstdint>

namespace driftbound::implicit {
namespace {

/// What the functions need to know of a format: p bits.
template <class Real>
struct Constants;

template <>
struct Constants<double> {
  using Integer = std::int64_t;
  static constexpr int fraction_bits = 52;
  static constexpr double to_integer =
      0x1.8p52;  ///< 1.5 2^(p-1): what is added to it leaves an integer in the last bits
  static constexpr double two_log2_e = 0x1.71547652b82fep+1, saturated = 20.0;
  static constexpr double exp2[] = {0x1.0000000000000p+0,  0x1.62e42fefa3a19p-1,  0x1.ebfbdff82c598p-3,
                                    0x1.c6b08d703ce49p-5,  0x1.3b2ab6fba1ddap-7,  0x1.5d87fe9d7a584p-10,
                                    0x1.430913096fd9fp-13, 0x1.ffcb54062e698p-17, 0x1.62bfd47773353p-20,
                                    0x1.b675bca4eeebbp-24, 0x1.e6063f7217bc6p-28};
  static constexpr double one_over_pi = 0x1.45f306dc9c883p-2, largest_angle = 0x1p20;
  static constexpr double pi[] = {0x1.921fb544p+1, 0x1.0b4611a6p-33, 0x1.3198a2e037073p-68};
  static constexpr double sine[] = {0x1.fffffffffffffp-1,   -0x1.555555555547fp-3, 0x1.1111111109f26p-7,
                                    -0x1.a01a019a53d0cp-13, 0x1.71de380881048p-19, -0x1.ae63578507052p-26,
                                    0x1.60e726b6563eep-33,  -0x1.9f23f825ac503p-41};
};

template <>
struct Constants<float> {
  using Integer = std::int32_t;
  static constexpr int fraction_bits = 23;
  static constexpr float to_integer = 0x1.8p23F;
  static constexpr float two_log2_e = 0x1.715476p+1F, saturated = 10.0F;
  static constexpr float exp2[] = {0x1.000000p+0F, 0x1.62e430p-1F,  0x1.ebfbe0p-3F, 0x1.c6aeccp-5F,
                                   0x1.3b2a1cp-7F, 0x1.5f48c0p-10F, 0x1.444000p-13F};
  static constexpr float one_over_pi = 0x1.45f306p-2F, largest_angle = 0x1p11F;
  static constexpr float pi[] = {0x1.921p+1F, 0x1.f6ap-12F, 0x1.110b46p-25F};
  static constexpr float sine[] = {0x1.000000p+0F, -0x1.55554ap-3F, 0x1.110eb0p-7F, -0x1.9f6c7ep-13F, 0x1.5da182p-19F};
  static constexpr float log1p[] = {0x1.000000p+0F, -0x1.ffffb8p-2F, 0x1.554bd6p-2F, -0x1.ff0254p-3F,
                                    0x1.92b430p-3F, -0x1.38b908p-3F, 0x1.afdde8p-4F, -0x1.cdd008p-5F,
                                    0x1.402f4cp-6F, -0x1.a04acap-9F};
};

/// Set: Reals and Integers, vectors of Set::lanes numbers of Set::Real and of integers as wide; and, where products are
/// to be rounded together with the sums they go into, fma(a, b, c).
template <class Set>
struct Functions {
  using Real = typename Set::Real;
  using R = typename Set::Reals;
  using I = typename Set::Integers;
  using C = Constants<Real>;

  static R load(const Real* p) {
    R x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  static void store(R x, Real* p) { __builtin_memcpy(p, &x, sizeof x); }
  static R all(Real x) { return R{} + x; }
  static I bits(R x) { return __builtin_bit_cast(I, x); }
  static R from_bits(I x) { return __builtin_bit_cast(R, x); }
  static R abs(R x) { return from_bits(bits(x) & ~(typename C::Integer{1} << (8 * sizeof(Real) - 1))); }
  /// x where it is NaN
  static R at_least(R x, Real least) { return x < least ? all(least) : x; }
  static R at_most(R x, Real most) { return x > most ? all(most) : x; }

  /// c + a b
  static R add_product(R c, R a, R b) {
    if constexpr (requires { Set::fma(a, b, c); }) {
      return Set::fma(a, b, c);
    } else {
      return c + a * b;
    }
  }
  /// c_0 + c_1 x + c_2 x^2 + ... by Horner's rule, from c_k on.
  template <std::size_t k = 0, std::size_t terms>
  static R polynomial(R x, const Real (&c)[terms]) {
    if constexpr (k + 1 == terms) {
      return all(c[k]);
    } else {
      return add_product(all(c[k]), x, polynomial<k + 1>(x, c));
    }
  }

  /// e^(2x), |x| at most 20
  static R exp_of_twice(R x) {
    const R shifted = add_product(all(C::to_integer), x, all(C::two_log2_e));  // n in its last bits
    const R fraction = add_product(C::to_integer - shifted, x, all(C::two_log2_e));
    return from_bits(bits(polynomial(fraction, C::exp2)) + (bits(shifted) << C::fraction_bits));
  }

  static R tanh(R x) {
    const R power = exp_of_twice(at_most(at_least(x, -C::saturated), C::saturated));
    return Real{1} - Real{2} / (Real{1} + power);
  }
  static R sigmoid(R x) {
    const R half = Real{0.5} * x;
    return Real{1} / (Real{1} + exp_of_twice(-at_most(at_least(half, -C::saturated), C::saturated)));
  }
  static R expm1_below_0(R x) { return exp_of_twice(at_least(Real{0.5} * x, -C::saturated)) - Real{1}; }
  static R softplus(R x) {
    const R t = exp_of_twice(at_least(Real{-0.5} * abs(x), -C::saturated));
    const R logarithm = t * polynomial(t, C::log1p);
    return at_least(x, Real{0}) + logarithm;
  }

  /// sin(x), or cos(x) = sin(x + pi/2): half turns are taken off.
  template <bool is_cosine>
  static R sine(R x) {
    const R turned = is_cosine ? add_product(all(0.5), x, all(C::one_over_pi)) : R{};
    const R shifted = is_cosine ? C::to_integer + turned : add_product(all(C::to_integer), x, all(C::one_over_pi));
    const R n = is_cosine ? (shifted - C::to_integer) - Real{0.5} : shifted - C::to_integer;
    R r = x;
    for (const Real part : C::pi) r = add_product(r, n, all(-part));
    const R size = r * polynomial(r * r, C::sine);
    return from_bits(bits(size) ^ (bits(shifted) << (8 * sizeof(Real) - 1)));
  }
};

/// Calls step(i, count) for [0, n) in pieces of one vector, the last one shorter.
template <class Set, class Step>
inline void in_pieces(std::size_t n, const Step& step) {
  std::size_t i = 0;
  for (; i + Set::lanes <= n; i += Set::lanes) step(i, Set::lanes);
  if (i < n) step(i, n - i);
}
template <class Set, class F>
inline void each_vector(const typename Set::Real* x, typename Set::Real* y, std::size_t n, const F& f) {
  using L = Functions<Set>;
  in_pieces<Set>(n, [&](std::size_t i, std::size_t count) {
    if (count == Set::lanes) return L::store(f(L::load(x + i)), y + i);
    typename Set::Real padded[Set::lanes] = {};
    for (std::size_t k = 0; k < count; ++k) padded[k] = x[i + k];
    L::store(f(L::load(padded)), padded);
    for (std::size_t k = 0; k < count; ++k) y[i + k] = padded[k];
  });
}

template <class Set>
bool tanh(const typename Set::Real* x, typename Set::Real* y, std::size_t n) {
  each_vector<Set>(x, y, n, [](auto at) { return Functions<Set>::tanh(at); });
  return true;
}

template <class Set>
bool sigmoid(const typename Set::Real* x, typename Set::Real* y, std::size_t n) {
  each_vector<Set>(x, y, n, [](auto at) { return Functions<Set>::sigmoid(at); });
  return true;
}
/// For x <= 0.
template <class Set>
bool expm1_below_0(const typename Set::Real* x, typename Set::Real* y, std::size_t n) {
  each_vector<Set>(x, y, n, [](auto at) { return Functions<Set>::expm1_below_0(at); });
  return true;
}
template <class Set>
bool softplus(const typename Set::Real* x, typename Set::Real* y, std::size_t n) {
  each_vector<Set>(x, y, n, [](auto at) { return Functions<Set>::softplus(at); });
  return true;
}

template <class Set, bool is_cosine, class Angle>
bool sine_of(const typename Set::Real* x, typename Set::Real* y, std::size_t n, const Angle& angle_of) {
  using L = Functions<Set>;
  typename Set::Integers covered = ~typename Set::Integers{};
  each_vector<Set>(x, y, n, [&](auto at) {
    const auto angle = angle_of(at);
    covered &= L::abs(angle) <= Constants<typename Set::Real>::largest_angle;  // not for NaN
    return L::template sine<is_cosine>(angle);
  });
  bool are_covered = true;
  for (std::size_t lane = 0; lane < Set::lanes; ++lane) are_covered = are_covered && covered[lane] != 0;
  return are_covered;
}
template <class Set, bool is_cosine>
bool sine(const typename Set::Real* x, typename Set::Real* y, std::size_t n) {
  return sine_of<Set, is_cosine>(x, y, n, [](auto at) { return at; });
}
template <class Set, bool is_cosine>
bool sine_of_multiple(const typename Set::Real* x, typename Set::Real factor, typename Set::Real* y, std::size_t n) {
  return sine_of<Set, is_cosine>(x, y, n, [&](auto at) { return at * factor; });
}

}  // namespace
}  // namespace driftbound::implicit
