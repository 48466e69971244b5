#pragma once

// Functions over blocks with errors of a few units of 1, in fewer steps than those of T-80. Products are rounded together
// with the sums that they go into where the processor can.

#include <cstddef>

#include "simd/vector.hpp"

namespace driftbound::implicit {
namespace {

/// What the functions need to know of a format: p bits.
template <class Real>
struct Constants;

template <>
struct Constants<double> {
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

using simd::bits_as, simd::magnitude;

template <class Real>
struct Functions {
  using R = simd::Native<Real>;
  using C = Constants<Real>;

  /// x where it is NaN
  static R at_least(R x, Real least) { return where(x < least, least, x); }
  static R at_most(R x, Real most) { return where(x > most, most, x); }
  /// c + a b
  static R add_product(R c, R a, R b) { return simd::multiply_add(a, b, c); }
  /// c_0 + c_1 x + c_2 x^2 + ... by Horner's rule, from c_k on.
  template <std::size_t k = 0, std::size_t terms>
  static R polynomial(R x, const Real (&c)[terms]) {
    if constexpr (k + 1 == terms) {
      return c[k];
    } else {
      return add_product(c[k], x, polynomial<k + 1>(x, c));
    }
  }

  /// e^(2x), |x| at most 20
  static R exp_of_twice(R x) {
    const R shifted = add_product(C::to_integer, x, C::two_log2_e);  // n in its last bits
    const R fraction = add_product(C::to_integer - shifted, x, C::two_log2_e);
    return bits_as<Real>(bits_of(polynomial(fraction, C::exp2)) + (bits_of(shifted) << C::fraction_bits));
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
    const R t = exp_of_twice(at_least(Real{-0.5} * magnitude(x), -C::saturated));
    const R logarithm = t * polynomial(t, C::log1p);
    return at_least(x, Real{0}) + logarithm;
  }

  /// sin(x), or cos(x) = sin(x + pi/2): half turns are taken off.
  template <bool is_cosine>
  static R sine(R x) {
    const R turned = is_cosine ? add_product(0.5, x, C::one_over_pi) : R{};
    const R shifted = is_cosine ? C::to_integer + turned : add_product(C::to_integer, x, C::one_over_pi);
    const R n = is_cosine ? (shifted - C::to_integer) - Real{0.5} : shifted - C::to_integer;
    R r = x;
    for (const Real part : C::pi) r = add_product(r, n, -part);
    const R size = r * polynomial(r * r, C::sine);
    return bits_as<Real>(bits_of(size) ^ (bits_of(shifted) << int{8 * sizeof(Real) - 1}));
  }
};

template <class Real, class F>
inline void each_vector(const Real* x, Real* y, std::size_t n, const F& f) {
  using R = simd::Native<Real>;
  simd::in_vectors<R::lanes>(n, [&](std::size_t i, auto count) { f(R::load(x + i, count)).store(y + i, count); });
}

/// y = f(x) for a function that covers all x.
template <class Real, simd::Native<Real> (*f)(simd::Native<Real>)>
bool function_of_all(const Real* x, Real* y, std::size_t n) {
  each_vector(x, y, n, [](simd::Native<Real> at) { return f(at); });
  return true;
}

template <bool is_cosine, class Real, class Angle>
bool sine_of(const Real* x, Real* y, std::size_t n, const Angle& angle_of) {
  using R = simd::Native<Real>;
  typename R::Mask covered = ~typename R::Mask{};
  each_vector(x, y, n, [&](R at) {
    const R angle = angle_of(at);
    covered &= magnitude(angle) <= Constants<Real>::largest_angle;  // not for NaN
    return Functions<Real>::template sine<is_cosine>(angle);
  });
  return simd::every(covered);
}
template <bool is_cosine, class Real>
bool sine(const Real* x, Real* y, std::size_t n) {
  return sine_of<is_cosine>(x, y, n, [](auto at) { return at; });
}
template <bool is_cosine, class Real>
bool sine_of_multiple(const Real* x, Real factor, Real* y, std::size_t n) {
  return sine_of<is_cosine>(x, y, n, [&](auto at) { return at * factor; });
}

}  // namespace
}  // namespace driftbound::implicit
