// Functions of sums of two doubles (T-91 to T-94), as double_double_arithmetic.hpp says. A function returns NaN where
// its theorem does not hold.

#include "num/kernels/double_double.hpp"

#include "num/kernels/double_double_arithmetic.hpp"

namespace driftbound::num {
namespace {

using simd::bits_as, simd::fma, simd::magnitude;

struct DoubleDoubleMethods : DoubleDoubleArithmetic {
  /// n + to_integer has the integer n in its last bits.
  static constexpr double to_integer = 0x1.8p52;

  static D power_of_two(D shifted) { return bits_as<double>((bits_of(shifted) + 1023) << 52); }

  /// y where x is finite and normalised, |x| is 0 or not below 2^-900, and `domain` holds; elsewhere NaN.
  static Pair certified(Pair y, Pair x, I domain = ~I{}) {
    const D size = magnitude(x.high);
    const I normalised = magnitude(x.low) <= size * 0x1p-53;
    const I in_range = ((size >= 0x1p-900) & (size <= 0x1.fffffffffffffp1023)) | (size == 0.0);
    return choose(domain & normalised & in_range, y, {__builtin_nan(""), __builtin_nan("")});
  }

  /// x, or the bound where x is larger or NaN.
  static Pair at_most(Pair x, double bound) { return choose(x.high <= bound, x, {D(bound), D{}}); }

  // T-91: e^x = 2^n (1 + expm1).

  struct Exponential {
    D scale;  ///< 2^n
    Pair expm1;
  };

  static Exponential reduced_exp(Pair x) {
    const D shifted = fma(x.high, D(log2_e[0]), D(to_integer)), n = shifted - to_integer;
    const Pair a = two_sum(x.high - n * ln2_parts[0], -(n * ln2_parts[1]));
    const Pair b = two_sum(a.high, x.low);
    const Pair r = two_sum(b.high, b.low + fma(-n, D(ln2_parts[2]), a.low));
    return {power_of_two(shifted), product(r, polynomial(r, expm1_series))};
  }

  /// -621 < x <= 709
  static Pair exp_of(Pair x) {
    const Exponential e = reduced_exp(x);
    const Pair s = fast_two_sum(D(1.0), e.expm1.high);
    return scaled(fast_two_sum(s.high, s.low + e.expm1.low), e.scale);
  }
  static Pair expm1_of(Pair x) {
    const Exponential e = reduced_exp(x);
    return sum(two_sum(e.scale, D(-1.0)), scaled(e.expm1, e.scale));
  }

  /// 0 in place of what is below e^-620.
  static Pair or_nothing(Pair y, Pair x) { return choose(x.high < -620.0, {D{}, D{}}, y); }

  static Pair exp(Pair x) { return certified(or_nothing(exp_of(x), x), x, x.high <= 709.0); }
  static Pair expm1(Pair x) {
    const Pair at_least = choose(x.high < -620.0, {D(-620.0), D{}}, x);
    return certified(expm1_of(at_least), x, x.high <= 709.0);
  }

  // T-92

  /// log w, and log(1 + f) instead where `f_given` and w lies in [sqrt(1/2), sqrt 2).
  static Pair log_of(Pair w, Pair f, I f_given) {
    constexpr std::uint64_t root_of_half_bits = 0x3fe6a09e667f3bcd, bias = std::uint64_t{1024} << 52;
    const auto place = (bits_as<std::uint64_t>(w.high) + (bias - root_of_half_bits)) >> 52;  // 1024 + e
    const D e = bits_as<double>(place + __builtin_bit_cast(std::uint64_t, to_integer)) - (to_integer + 1024.0);
    const Pair m = scaled(w, bits_as<double>((2047 - place) << 52));
    const Pair g = choose(f_given & (e == 0.0), f, fast_two_sum(m.high - 1.0, m.low));
    const Pair s = quotient(g, sum(D(2.0), g));
    const Pair log_m = product(s, polynomial(product(s, s), log_series));
    return sum(product(e, all(ln2)), log_m);
  }
  static Pair log1p_of(Pair x) { return log_of(sum(D(1.0), x), x, ~I{}); }

  static Pair log(Pair x) {
    // log(1 + low) is low, which may be halved on the way.
    const I loses_low = (x.high == 1.0) & (x.low != 0.0) & (x.low < 0x1p-900) & (x.low > -0x1p-900);
    return certified(log_of(x, x, I{}), x, (x.high > 0.0) & (x.high <= 0x1p1000) & ~loses_low);
  }
  static Pair log1p(Pair x) { return certified(log1p_of(x), x, (x.high > -1.0) & (x.high <= 0x1p1000)); }

  static Pair tanh(Pair x) {
    const Pair q = expm1_of(scaled(at_most(abs(x), 40.0), D(2.0)));
    return certified(with_sign(quotient(q, sum(D(2.0), q)), x.high), x);
  }

  /// e^-|x|, and e^-620 for less.
  static Pair decay(Pair x) { return exp_of(with_sign(at_most(abs(x), 620.0), D(-1.0))); }

  static Pair sigmoid_of(Pair x) {
    const Pair e = decay(x);
    return quotient(choose(x.high < 0.0, e, {D(1.0), D{}}), sum(D(1.0), e));
  }
  static Pair sigmoid(Pair x) { return certified(or_nothing(sigmoid_of(x), x), x); }

  static Pair softplus(Pair x) {
    const Pair y = sum(choose(x.high > 0.0, x, {D{}, D{}}), log1p_of(decay(x)));
    return certified(or_nothing(y, x), x, x.high <= 0x1p1000);
  }

  // T-93

  struct Angle {
    I quarter;  ///< in its last two bits
    Pair rest;
  };

  static Angle reduced_angle(Pair x) {
    const D shifted = fma(x.high, D(two_over_pi[0]), D(to_integer)), n = shifted - to_integer;
    const Pair a = two_sum(x.high - n * half_pi_parts[0], -(n * half_pi_parts[1]));
    const Pair b = two_sum(a.high, x.low);
    const Pair c = two_sum(b.high, -(n * half_pi_parts[2]));
    const D low = c.low + (b.low + fma(-n, D(half_pi_parts[3]), a.low));
    return {bits_of(shifted), two_sum(c.high, low)};
  }

  static Pair sin_of_quarter(Pair x, Angle angle, std::int64_t quarters) {
    const I quarter = angle.quarter + quarters, odd = (quarter & 1) != 0;
    const Pair z = product(angle.rest, angle.rest);
    constexpr std::size_t pairs = sizeof sin_series.high / sizeof(double);
    constexpr std::size_t singles = sizeof sin_series.single / sizeof(double);
    const auto of = [odd](double sine, double cosine) { return where(odd, D(cosine), sine); };
    D tail = of(sin_series.single[singles - 1], cos_series.single[singles - 1]);
    for (std::size_t j = singles - 1; j-- > 0;)
      tail = fma(tail, z.high, of(sin_series.single[j], cos_series.single[j]));
    Pair value = {tail, D{}};
    for (std::size_t j = pairs; j-- > 0;) {
      value = step({of(sin_series.high[j], cos_series.high[j]), of(sin_series.low[j], cos_series.low[j])}, z, value);
    }
    const Pair y = product(choose(odd, {D(1.0), D{}}, angle.rest), value);
    return certified(with_sign(y, bits_as<double>(quarter << 62)), x, magnitude(x.high) <= 0x1p20);
  }

  static Pair sin(Pair x) { return sin_of_quarter(x, reduced_angle(x), 0); }
  static Pair cos(Pair x) { return sin_of_quarter(x, reduced_angle(x), 1); }

  // T-94

  /// erf of |x|.
  static Pair erf_of_size(Pair x) {
    const Pair a = at_most(abs(x), (erf_pieces - 1) / erf_pieces_a_unit);
    const D shifted = fma(a.high, D(erf_pieces_a_unit), D(to_integer));
    const Pair t = {a.high - (shifted - to_integer) * (1.0 / erf_pieces_a_unit), a.low};
    constexpr std::int64_t columns = 2 * erf_pairs + erf_singles;
    const I row = (bits_of(shifted) & 0xffff) * columns;
    const auto column = [row](std::size_t j) { return simd::gathered(erf_table[0] + j, row); };
    D tail = column(columns - 1);
    for (std::size_t j = columns - 1; j-- > 2 * erf_pairs;) tail = fma(tail, t.high, column(j));
    Pair value = {tail, D{}};
    for (std::size_t j = erf_pairs; j-- > 0;) value = any_step({column(j), column(erf_pairs + j)}, t, value);
    return fast_two_sum(value.high, value.low);
  }

  static Pair erf(Pair x) { return certified(with_sign(erf_of_size(x), x.high), x); }

  // T-102

  /// t times the chance of more than t, t >= 5, over the density there: t A / B, a convergent of Laplace's fraction.
  static Pair tail_over_density(Pair t) {
    Pair a = {D(1.0), D{}}, a_before = {D{}, D{}}, b = t, b_before = a;
    for (int k = 1; k < gelu_tail_terms; ++k) {
      const D factor = D(static_cast<double>(k));
      const Pair next_a = sum(product(t, a), product(factor, a_before));
      const Pair next_b = sum(product(t, b), product(factor, b_before));
      a_before = a, b_before = b;
      a = next_a, b = next_b;
    }
    return product(t, quotient(a, b));
  }

  /// gelu of x where `chosen`, 0 where that is below e^-620.
  static Pair gelu_of_tail(Pair x, I chosen) {
    const Pair t = choose(chosen & (x.high > -36.0), abs(x), {D(36.0), D{}});
    const Pair exponent = scaled(product(t, t), D(-0.5));
    const Pair density = product(all(density_at_0), exp_of(choose(exponent.high < -620.0, {D(-620.0), D{}}, exponent)));
    const Pair size = product(density, tail_over_density(t));
    return choose(exponent.high < -620.0, {D{}, D{}}, with_sign(size, D(-1.0)));
  }

  static Pair gelu(Pair x) {
    const Pair e = with_sign(erf_of_size(product(x, all(root_of_half))), x.high);
    const Pair y = product(scaled(x, D(0.5)), sum(D(1.0), e));
    const I in_tail = x.high < gelu_tail;
    return certified(simd::any(in_tail) ? choose(in_tail, gelu_of_tail(x, in_tail), y) : y, x,
                     magnitude(x.high) <= 0x1p1000);
  }

  /// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)).
  static Pair gelu_tanh(Pair x) {
    const Pair a = at_most(abs(x), 64.0);
    const Pair line = any_step(all(gelu_line), product(a, a), all(gelu_cube));
    const Pair v = with_sign(product(a, line), x.high), share = or_nothing(sigmoid_of(v), v);
    return certified(product(x, share), x, magnitude(x.high) <= 0x1p1000);
  }

  // T-90

  static Pair sqrt(Pair x) {
    return certified(choose(x.high == 0.0, x, square_root(x)), x, (x.high >= 0.0) & (x.high <= 0x1p1000));
  }
  static Pair reciprocal(Pair x) {
    const I domain = (magnitude(x.high) > 0.0) & (magnitude(x.high) <= 0x1p900);
    return certified(quotient({D(1.0), D{}}, x), x, domain);
  }

  template <Pair (*function)(Pair)>
  static void loop(const double* x_high, const double* x_low, std::size_t count, double* y_high, double* y_low) {
    simd::in_vectors<D::lanes>(count, [&](std::size_t i, auto some) {
      const Pair y = function({D::load(x_high + i, some), D::load(x_low + i, some)});
      y.high.store(y_high + i, some);
      y.low.store(y_low + i, some);
    });
  }
};

using M = DoubleDoubleMethods;

}  // namespace

const DoubleDoubleKernels DRIFTBOUND_SIMD_NAME(double_double) = {
    DRIFTBOUND_SIMD_TARGET_NAME,
    {&M::loop<&M::exp>, &M::loop<&M::expm1>, &M::loop<&M::log>, &M::loop<&M::log1p>, &M::loop<&M::tanh>,
     &M::loop<&M::sigmoid>, &M::loop<&M::softplus>, &M::loop<&M::sin>, &M::loop<&M::cos>, &M::loop<&M::erf>,
     &M::loop<&M::gelu>, &M::loop<&M::gelu_tanh>, &M::loop<&M::sqrt>, &M::loop<&M::reciprocal>}};

}  // namespace driftbound::num
