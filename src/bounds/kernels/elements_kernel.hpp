#pragma once

// Loops over elements, written once and compiled once per instruction set. Everything here has internal linkage and
// calls no inline function of another header: code compiled for a newer processor must not be shared with the rest of
// the program. No operation is fused or reordered: -ffp-contract=off, as everywhere.

#include <cstddef>
#include <cstdint>

#include "bounds/kernels/elements.hpp"
#include "bounds/kernels/gelu_constants.hpp"

namespace driftbound::bounds {
namespace {

/// Set: Doubles and Integers, vectors of Set::lanes elements; and, where products are to be rounded together with the
/// sums they go into, fma(a, b, c). Then the bits are others, and T-80 holds as well.
template <class Set>
struct Lanes {
  using D = typename Set::Doubles;
  using I = typename Set::Integers;

  static D load(const double* p) {
    D x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  static void store(D x, double* p) { __builtin_memcpy(p, &x, sizeof x); }
  static D all(double x) { return D{} + x; }
  static I bits(D x) { return __builtin_bit_cast(I, x); }
  static D from_bits(I x) { return __builtin_bit_cast(D, x); }
  static D abs(D x) { return from_bits(bits(x) & std::int64_t{0x7fffffffffffffff}); }
  static D with_sign_of(D magnitude, D sign) {
    return from_bits((bits(magnitude) & std::int64_t{0x7fffffffffffffff}) | (bits(sign) & INT64_MIN));
  }
  static bool every(I mask) {
    bool all = true;
    for (std::size_t i = 0; i < Set::lanes; ++i) all = all && mask[i] != 0;
    return all;
  }

  /// c + a b
  static D add_product(D c, D a, D b) {
    if constexpr (requires { Set::fma(a, b, c); }) {
      return Set::fma(a, b, c);
    } else {
      return c + a * b;
    }
  }

  /// c0 + c1 x + c2 x^2 + ... by Horner's rule.
  static D polynomial(D, double c0) { return all(c0); }
  template <class... Rest>
  static D polynomial(D x, double c0, Rest... rest) {
    return add_product(all(c0), x, polynomial(x, rest...));
  }

  struct Exponential {
    D scale, expm1;  ///< e^x = scale (1 + expm1)
  };

  static Exponential reduced_exp(D x) {
    constexpr double log2_e = 0x1.71547652b82fep+0, to_integer = 0x1.8p52;
    constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    const D shifted = add_product(all(to_integer), x, all(log2_e));  // n in its last bits
    const D n = shifted - to_integer;
    const D r = add_product(add_product(x, n, all(-ln2_high)), n, all(-ln2_low));
    const D tail = polynomial(r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                              1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
    return {from_bits((bits(shifted) + std::int64_t{1023}) << 52), add_product(r, r * r, tail)};
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
    const D decrease = expm1(-2.0 * abs(x));
    return with_sign_of(decrease / (2.0 + decrease), x);
  }

  static D sigmoid(D x) {
    const D e = exp(-abs(x));
    return (x < 0.0 ? e : all(1.0)) / (1.0 + e);
  }

  static D softplus(D x) {
    const D small = log1p(exp(-abs(x)));
    return x < 0.0 ? small : x + small;
  }

  /// sin(x + more pi/2)
  static D sine(D x, std::int64_t more) {
    constexpr double two_over_pi = 0x1.45f306dc9c883p-1, to_integer = 0x1.8p52;
    constexpr double high = 0x1.921fb544p+0, middle = 0x1.0b4611a6p-34, low = 0x1.3198a2e037073p-69;
    const D shifted = add_product(all(to_integer), x, all(two_over_pi));  // quarter turns in its last bits
    const D n = shifted - to_integer;
    const D r = add_product(add_product(add_product(x, n, all(-high)), n, all(-middle)), n, all(-low));
    const D z = r * r;
    const D sin = add_product(r, r * z,
                              polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                         1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000));
    const D cos = add_product(1.0 - 0.5 * z, z * z,
                              polynomial(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                         -1.0 / 87178291200, 1.0 / 20922789888000));
    const I turns = bits(shifted) + more;
    const D value = (turns & std::int64_t{1}) != 0 ? cos : sin;
    return from_bits(bits(value) ^ ((turns & std::int64_t{2}) << 62));
  }

  static D at_most(D x, double limit) { return x < limit ? x : all(limit); }

  /// A function with its first two derivatives.
  struct Bend {
    D value, slope, curvature;
  };

  /// x share of x, from the share of -|x|, whose derivative at |x| is -density, and f'' at `most` or |x|.
  static Bend gated(D x, double most, D share_below, D moved, D curvature) {
    const D share = x < 0.0 ? share_below : 1.0 - share_below;
    const D within = x < 0.0 ? -at_most(-x, most) : x;
    return {within * share, x < 0.0 ? share - moved : share + moved, curvature};
  }

  /// Terms 1 to 10 of the density's integral from a - t to a, next to the density at a.
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

  static Bend gelu(D x) {
    constexpr double most = 9.0, to_integer = 0x1.8p52;
    const D a = at_most(abs(x), most), shifted = a * 8.0 + to_integer, nearest = (shifted - to_integer) * 0.125;
    const I place = bits(shifted) - __builtin_bit_cast(std::int64_t, to_integer);
    D tail{};
    for (std::size_t i = 0; i < Set::lanes; ++i) tail[i] = normal_tails[place[i]];
    const D square = a * a, density = exp(square * -0.5) * normal_density;
    return gated(x, most, tail - density * integral(a, a - nearest), a * density, density * (2.0 - square));
  }

  static Bend gelu_tanh(D x) {
    constexpr double most = 12.0;
    const D a = at_most(abs(x), most), square = a * a, line = a * (gelu_step + gelu_bend * square);
    const D e = exp(-line), below = e / (1.0 + e), spread = below / (1.0 + e);
    const D rate = gelu_step + (3.0 * gelu_bend) * square, curve = (6.0 * gelu_bend) * square;
    const D bend = 2.0 * rate + (curve - (a * (rate * rate)) * (1.0 - 2.0 * below));
    return gated(x, most, below, a * rate * spread, spread * bend);
  }
};

/// A function with the arguments that it covers: 0, and magnitudes from 2^-500 on within a range.
struct Exp {
  static constexpr double lowest = -708.0, highest = 709.0;
  template <class L, class D>
  static D at(D x) {
    return L::exp(x);
  }
};
struct Expm1 {
  static constexpr double lowest = -708.0, highest = 709.0;
  template <class L, class D>
  static D at(D x) {
    return L::expm1(x);
  }
};
struct Tanh {
  static constexpr double lowest = -350.0, highest = 350.0;
  template <class L, class D>
  static D at(D x) {
    return L::tanh(x);
  }
};
struct Sigmoid {
  static constexpr double lowest = -700.0, highest = 700.0;
  template <class L, class D>
  static D at(D x) {
    return L::sigmoid(x);
  }
};
struct Softplus {
  static constexpr double lowest = -700.0, highest = 700.0;
  template <class L, class D>
  static D at(D x) {
    return L::softplus(x);
  }
};
struct Sin {
  static constexpr double lowest = -0x1p20, highest = 0x1p20;
  template <class L, class D>
  static D at(D x) {
    return L::sine(x, 0);
  }
};
struct Cos {
  static constexpr double lowest = -0x1p20, highest = 0x1p20;
  template <class L, class D>
  static D at(D x) {
    return L::sine(x, 1);
  }
};

/// Calls step(i, count) for [0, n) in pieces of one vector, the last one shorter.
template <class Set, class Step>
void in_vectors(std::size_t n, const Step& step) {
  std::size_t i = 0;
  for (; i + Set::lanes <= n; i += Set::lanes) step(i, Set::lanes);
  if (i < n) step(i, n - i);
}

/// `count` elements, zeros after them.
template <class Set>
typename Set::Doubles loaded(const double* p, std::size_t count) {
  if (count == Set::lanes) return Lanes<Set>::load(p);
  double padded[Set::lanes] = {};
  for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
  return Lanes<Set>::load(padded);
}

template <class Set>
void stored(typename Set::Doubles x, double* p, std::size_t count) {
  if (count == Set::lanes) return Lanes<Set>::store(x, p);
  double padded[Set::lanes];
  Lanes<Set>::store(x, padded);
  for (std::size_t i = 0; i < count; ++i) p[i] = padded[i];
}

template <class Set, class F>
bool function(const double* x, double* y, std::size_t n) {
  using L = Lanes<Set>;
  constexpr double least = 0x1p-500;
  typename Set::Integers covered = ~typename Set::Integers{};
  in_vectors<Set>(n, [&](std::size_t i, std::size_t count) {
    const typename Set::Doubles at = loaded<Set>(x + i, count);
    covered &= (at >= F::lowest) & (at <= F::highest) & ((L::abs(at) >= least) | (at == 0.0));
    stored<Set>(F::template at<L>(at), y + i, count);
  });
  return L::every(covered);
}

struct Gelu {
  template <class L, class D>
  static auto at(D x) {
    return L::gelu(x);
  }
};
struct GeluTanh {
  template <class L, class D>
  static auto at(D x) {
    return L::gelu_tanh(x);
  }
};

template <class Set, class F>
bool bends(const double* x, double* y, double* slopes, double* curvatures, std::size_t n) {
  using L = Lanes<Set>;
  typename Set::Integers finite = ~typename Set::Integers{};
  in_vectors<Set>(n, [&](std::size_t i, std::size_t count) {
    const typename Set::Doubles at = loaded<Set>(x + i, count);
    finite &= at - at == 0.0;
    const auto bend = F::template at<L>(at);
    stored<Set>(bend.value, y + i, count);
    if (slopes == nullptr) return;
    stored<Set>(bend.slope, slopes + i, count);
    stored<Set>(bend.curvature, curvatures + i, count);
  });
  return L::every(finite);
}

template <class Set>
bool relu(const double* x, double* y, std::size_t n) {
  using L = Lanes<Set>;
  typename Set::Integers finite = ~typename Set::Integers{};
  in_vectors<Set>(n, [&](std::size_t i, std::size_t count) {
    const typename Set::Doubles at = loaded<Set>(x + i, count);
    finite &= at - at == 0.0;
    stored<Set>(at > 0.0 ? at : L::all(0.0), y + i, count);
  });
  return L::every(finite);
}

struct Sum {
  template <class D>
  static D of(D a, D b) {
    return a + b;
  }
};
struct Difference {
  template <class D>
  static D of(D a, D b) {
    return a - b;
  }
};
struct Product {
  template <class D>
  static D of(D a, D b) {
    return a * b;
  }
};

template <class Set, class Operation>
bool pair(const double* a, const double* b, double* y, std::size_t n) {
  typename Set::Integers finite = ~typename Set::Integers{};
  in_vectors<Set>(n, [&](std::size_t i, std::size_t count) {
    const typename Set::Doubles result = Operation::of(loaded<Set>(a + i, count), loaded<Set>(b + i, count));
    finite &= result - result == 0.0;
    stored<Set>(result, y + i, count);
  });
  return Lanes<Set>::every(finite);
}

/// What 2Sum finds lost is not a number where the sum is infinite, and then nothing is added. For a, b >= 0.
inline double add_up_one(double a, double b) {
  const double sum = a + b, of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
  const double up = __builtin_bit_cast(double, __builtin_bit_cast(std::int64_t, sum) + (lost > 0.0 ? 1 : 0));
  return sum == sum ? up : __builtin_inf();
}

template <class Set>
void add_up(const double* a, const double* b, double* y, std::size_t n) {
  using L = Lanes<Set>;
  using D = typename Set::Doubles;
  std::size_t i = 0;
  for (; i + Set::lanes <= n; i += Set::lanes) {
    const D x = L::load(a + i), z = L::load(b + i);
    const D sum = x + z, of_z = sum - x, lost = (x - (sum - of_z)) + (z - of_z);
    const D up = L::from_bits(L::bits(sum) - (lost > 0.0));
    L::store(sum == sum ? up : L::all(__builtin_inf()), y + i);
  }
  for (; i < n; ++i) y[i] = add_up_one(a[i], b[i]);
}

/// Three roundings; (1 + 2^-50) makes good for them, and sums of numbers so small that it does not are exact.
constexpr double outward_factor = 1.0 + 0x1p-50;

/// Rows shorter than a vector.
inline double deviation_of_few(const double* computed, const double* shadow, double radius, double u, double* bound,
                               std::size_t n) {
  double largest = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const double difference = __builtin_fabs(computed[i] - shadow[i]);
    const double off = difference == difference ? difference : __builtin_inf();
    const double unit = u * __builtin_fabs(computed[i]);
    largest = off > largest ? off : largest;
    largest = unit > largest ? unit : largest;
    bound[i] = (off + radius) * outward_factor;
  }
  return largest;
}

/// The last vector of a row ends with it, and does some elements once more.
template <class Set>
double deviation(const double* computed, const double* shadow, double radius, double u, double* bound, std::size_t n) {
  using L = Lanes<Set>;
  using D = typename Set::Doubles;
  if (n < Set::lanes) return deviation_of_few(computed, shadow, radius, u, bound, n);
  const D infinite = L::all(__builtin_inf());
  D largest{};
  const auto step = [&](std::size_t i) {
    const D at = L::load(computed + i);
    const D difference = L::abs(at - L::load(shadow + i));
    const D off = difference == difference ? difference : infinite;
    const D unit = u * L::abs(at);
    largest = off > largest ? off : largest;
    largest = unit > largest ? unit : largest;
    L::store((off + radius) * outward_factor, bound + i);
  };
  for (std::size_t i = 0; i + Set::lanes <= n; i += Set::lanes) step(i);
  if (n % Set::lanes != 0) step(n - Set::lanes);
  double of_all = 0.0;
  for (std::size_t i = 0; i < Set::lanes; ++i) of_all = largest[i] > of_all ? largest[i] : of_all;
  return of_all;
}

template <class Set>
constexpr ElementKernels element_kernels(const char* name) {
  return {name,
          &function<Set, Exp>,
          &function<Set, Tanh>,
          &function<Set, Sigmoid>,
          &function<Set, Softplus>,
          &function<Set, Sin>,
          &function<Set, Cos>,
          &bends<Set, Gelu>,
          &bends<Set, GeluTanh>,
          &relu<Set>,
          &pair<Set, Sum>,
          &pair<Set, Difference>,
          &pair<Set, Product>,
          &add_up<Set>,
          &deviation<Set>};
}

}  // namespace
}  // namespace driftbound::bounds
