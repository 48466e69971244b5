#pragma once

// Loops over balls with double-double midpoints, written once and compiled once per instruction set. Everything here
// has internal linkage and calls no inline function of another header: code compiled for a newer processor must not be
// shared with the rest of the program. What is fused is written so.

#include <cstddef>
#include <cstdint>

#include "reference/kernels/pairs.hpp"

namespace driftbound {
namespace {

/// Set: Doubles and Integers, vectors of Set::lanes elements, and fma().
template <class Set>
struct PairLanes {
  using D = typename Set::Doubles;
  using I = typename Set::Integers;
  static constexpr std::size_t lanes = Set::lanes;
  static constexpr double infinity = __builtin_inf();
  /// More than the roundings of a dozen operations take off.
  static constexpr double outward = 1.0 + 0x1p-48, inward = 1.0 - 0x1p-48;
  static constexpr double unit = 0x1p-53, underflow = 0x1p-1070;

  static D all(double x) { return D{} + x; }
  static D load(const double* p, std::size_t count) {
    D x{};
    if (count == lanes) {
      __builtin_memcpy(&x, p, sizeof x);
    } else {
      __builtin_memcpy(&x, p, count * sizeof(double));
    }
    return x;
  }
  static void store(D x, double* p, std::size_t count) {
    if (count == lanes) {
      __builtin_memcpy(p, &x, sizeof x);
    } else {
      __builtin_memcpy(p, &x, count * sizeof(double));
    }
  }
  static D abs(D x) { return __builtin_bit_cast(D, __builtin_bit_cast(I, x) & std::int64_t{0x7fffffffffffffff}); }
  static D larger(D x, D y) { return x > y ? x : y; }
  static D where(I mask, D x) { return mask ? x : D{}; }
  static double largest(D x) {
    double most = 0.0;
    for (std::size_t i = 0; i < lanes; ++i) most = x[i] > most ? x[i] : most;
    return most;
  }

  struct Sum {
    D value, error;
  };
  static Sum two_sum(D a, D b) {
    const D sum = a + b, b_part = sum - a, a_part = sum - b_part;
    return {sum, (a - a_part) + (b - b_part)};
  }

  struct Balls {
    D hi, lo, radius;
  };
  static Balls load(ConstPairs x, std::size_t i, std::size_t count) {
    return {load(x.hi + i, count), load(x.lo + i, count), load(x.radius + i, count)};
  }
  static void store(const Balls& x, Pairs y, std::size_t i, std::size_t count) {
    store(x.hi, y.hi + i, count);
    store(x.lo, y.lo + i, count);
    store(x.radius, y.radius + i, count);
  }
  static Balls negative(const Balls& x) { return {-x.hi, -x.lo, x.radius}; }
  /// The whole line where something is not finite.
  static Balls checked(const Balls& x) {
    const I finite = (x.hi + x.lo) * 0.0 + x.radius < infinity;
    return {where(finite, x.hi), where(finite, x.lo), finite ? x.radius : all(infinity)};
  }
  static Balls select(I mask, const Balls& x, const Balls& y) {
    return {mask ? x.hi : y.hi, mask ? x.lo : y.lo, mask ? x.radius : y.radius};
  }
  static D reach(const Balls& x) { return abs(x.hi) + abs(x.lo); }

  // ---- functions of balls; `added` becomes what rounding adds to the radius

  static Balls sum(const Balls& a, const Balls& b, D& added) {
    const Sum high = two_sum(a.hi, b.hi), low = two_sum(a.lo, b.lo), middle = two_sum(high.error, low.value);
    const Sum midpoint = two_sum(high.value, middle.value);
    added = abs(low.error) + abs(middle.error);
    return {midpoint.value, midpoint.error, (a.radius + b.radius + added) * outward};
  }

  static Balls product(const Balls& a, const Balls& b, D& added) {
    const D high = a.hi * b.hi, residual = Set::fma(a.hi, b.hi, -high);
    const D one_cross = Set::fma(a.lo, b.hi, residual), low = Set::fma(a.hi, b.lo, one_cross);
    const Sum midpoint = two_sum(high, low);
    const I is_zero = (a.hi == 0.0) | (b.hi == 0.0), plain = (a.lo == 0.0) & (b.lo == 0.0) & (abs(high) >= 0x1p-960);
    added = abs(a.lo * b.lo) + where(a.lo != 0.0, abs(one_cross) * unit) + where(b.lo != 0.0, abs(low) * unit);
    added = where(~(is_zero | plain), added + underflow) + where(plain, added);
    const D reach_a = reach(a), reach_b = reach(b);
    const D carried = reach_a * b.radius + reach_b * a.radius + a.radius * b.radius;
    const I carries =
        ((b.radius != 0.0) & ((reach_a != 0.0) | (a.radius != 0.0))) | ((a.radius != 0.0) & (reach_b != 0.0));
    return {midpoint.value, midpoint.error, (carried + where(carries, all(underflow)) + added) * outward};
  }

  /// |x| at most, for x in a ball.
  static D most(const Balls& x) { return (reach(x) + x.radius) * outward; }

  static Balls quotient(const Balls& a, const Balls& b) {
    const D first = a.hi / b.hi, back = first * b.hi, error = Set::fma(first, b.hi, -back);
    const D rest = ((a.hi - back) - error) + (a.lo - first * b.lo);
    const Sum q = two_sum(first, rest / b.hi);
    D added;
    const Balls left = sum(a, negative(product({q.value, q.error, D{}}, b, added)), added);
    const D at_most = most(left), gap = abs(b.hi) * inward - b.radius;
    const D radius = at_most / (gap * inward) * outward + where(at_most != 0.0, all(underflow));
    return {q.value, q.error, gap > 0.0 ? radius : all(infinity)};
  }

  static Balls root(const Balls& x) {
    const D first = Set::sqrt(x.hi), rest = Set::fma(-first, first, x.hi) + x.lo;
    const Sum s = two_sum(first, rest / (2.0 * first));
    D added;
    const Balls near = {s.value, s.error, D{}}, left = sum(x, negative(product(near, near, added)), added);
    const D at_most = most(left);
    const D radius = at_most / (s.value * inward) * outward + where(at_most != 0.0, all(underflow));
    const I is_zero = (x.hi == 0.0) & (x.radius == 0.0), positive = (x.hi > 0.0) & (x.hi * inward >= x.radius);
    return select(is_zero, {D{}, D{}, D{}}, {s.value, s.error, positive ? radius : all(infinity)});
  }

  static Balls rectified(const Balls& x) {
    const I below = x.hi < 0.0, certain = abs(x.hi) * inward >= x.radius;
    const Balls cut = {D{}, D{}, certain ? D{} : x.radius};
    return select(below, cut, x);
  }

  static Balls absolute(const Balls& x) { return select(x.hi < 0.0, negative(x), x); }

  /// max, or with direction = -1 min.
  template <int direction>
  static Balls extremum(const Balls& a, const Balls& b) {
    constexpr double d = direction;
    const I first = (d * a.hi > d * b.hi) | ((a.hi == b.hi) & (d * a.lo >= d * b.lo));
    D added;
    const Balls distance = sum(a, negative(b), added);
    const I apart = abs(distance.hi) * inward >= distance.radius;
    const Balls winner = select(first, a, b);
    return {winner.hi, winner.lo, apart ? winner.radius : larger(a.radius, b.radius)};
  }
};

template <class Set>
struct PairLoops {
  using L = PairLanes<Set>;
  using D = typename L::D;
  using Balls = typename L::Balls;
  static constexpr std::size_t lanes = L::lanes;
  static constexpr double infinity = L::infinity;

  /// f(i, count) for pieces of a vector.
  template <class F>
  static void pieces(std::size_t n, F f) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) f(i, lanes);
    if (i < n) f(i, n - i);
  }

  template <class F>
  static void unary(Pairs y, ConstPairs x, std::size_t n, F f) {
    pieces(n, [&](std::size_t i, std::size_t count) { L::store(L::checked(f(L::load(x, i, count))), y, i, count); });
  }
  template <class F>
  static void binary(Pairs y, ConstPairs a, ConstPairs b, std::size_t n, F f) {
    pieces(n, [&](std::size_t i, std::size_t count) {
      L::store(L::checked(f(L::load(a, i, count), L::load(b, i, count))), y, i, count);
    });
  }
  template <class F>
  static double rounded(Pairs y, ConstPairs a, ConstPairs b, std::size_t n, F f) {
    D most{};
    binary(y, a, b, n, [&](const Balls& one, const Balls& other) {
      D added{};
      const Balls result = f(one, other, added);
      most = L::larger(added, most);
      return result;
    });
    return L::largest(most) * L::outward;
  }

  static double add(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    return rounded(y, a, b, n,
                   [](const Balls& one, const Balls& other, D& added) { return L::sum(one, other, added); });
  }
  static double subtract(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    return rounded(y, a, b, n, [](const Balls& one, const Balls& other, D& added) {
      return L::sum(one, L::negative(other), added);
    });
  }
  static double multiply(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    return rounded(y, a, b, n,
                   [](const Balls& one, const Balls& other, D& added) { return L::product(one, other, added); });
  }
  static void divide(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    binary(y, a, b, n, [](const Balls& one, const Balls& other) { return L::quotient(one, other); });
  }
  static void square_root(Pairs y, ConstPairs x, std::size_t n) {
    unary(y, x, n, [](const Balls& ball) { return L::root(ball); });
  }
  static void rectified(Pairs y, ConstPairs x, std::size_t n) {
    unary(y, x, n, [](const Balls& ball) { return L::rectified(ball); });
  }
  static void absolute(Pairs y, ConstPairs x, std::size_t n) {
    unary(y, x, n, [](const Balls& ball) { return L::absolute(ball); });
  }
  static void maximum(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    binary(y, a, b, n, [](const Balls& one, const Balls& other) { return L::template extremum<1>(one, other); });
  }
  static void minimum(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    binary(y, a, b, n, [](const Balls& one, const Balls& other) { return L::template extremum<-1>(one, other); });
  }

  /// In eight chains, however many lanes there are: the same bits everywhere.
  static double norm(const double* radius, std::size_t n) {
    constexpr std::size_t chains = 8, vectors = chains / lanes;
    D squares[vectors] = {}, most{};
    for (std::size_t i = 0; i < n; i += chains) {
      for (std::size_t v = 0; v < vectors && i + v * lanes < n; ++v) {
        const std::size_t left = n - i - v * lanes;
        const D r = L::load(radius + i + v * lanes, left < lanes ? left : lanes);
        squares[v] = squares[v] + r * r;
        most = L::larger(r, most);
      }
    }
    double sum = 0.0;
    for (std::size_t c = 0; c < chains; ++c) sum += squares[c / lanes][c % lanes];
    const double largest = L::largest(most), count = static_cast<double>(n), upward = 1.0 + (count + 16.0) * 0x1p-52;
    const bool plain = largest > 0x1p-400 && largest < 0x1p500;
    if (plain || largest == 0.0) return __builtin_sqrt(sum) * upward;
    return __builtin_sqrt(count) * upward * largest + L::underflow;
  }

  static void cap(double* radius, double most, std::size_t n) {
    pieces(n, [&](std::size_t i, std::size_t count) {
      const D r = L::load(radius + i, count);
      L::store(r < most ? r : L::all(most), radius + i, count);
    });
  }

  static void spread(double* radius, double norm_r, const double* norm_w, std::size_t n) {
    if (norm_r == 0.0) return;
    pieces(n, [&](std::size_t i, std::size_t count) {
      const D norm = L::load(norm_w + i, count);
      const D more = norm * norm_r + L::where(norm != 0.0, L::all(L::underflow));
      const D together = (L::load(radius + i, count) + more) * L::outward;
      L::store(together * 0.0 == 0.0 ? together : L::all(L::infinity), radius + i, count);
    });
  }

  static typename L::I is_precise(const Balls& ball, const double* computed, std::size_t count,
                                  const WantedPrecision& wanted) {
    typename L::I fine = ball.radius <= wanted.relative_radius * L::abs(ball.hi);
    if (computed != nullptr) {
      const D value = L::load(computed, count), size = L::abs(value);
      const typename L::Sum distance = L::two_sum(value, -ball.hi);
      const D error = L::abs(distance.value + (distance.error - ball.lo));
      const typename L::I is_error = error > ball.radius, measures_it = ball.radius <= wanted.error_ratio * error;
      const typename L::I is_fine_enough = ball.radius <= wanted.of_computed * size + wanted.absolute;
      fine = (is_error & measures_it) | (~is_error & fine) | ((size < infinity) & is_fine_enough);
    }
    return fine & (ball.radius < L::infinity);
  }

  static std::size_t judge(ConstPairs x, const double* computed, const WantedPrecision& wanted, std::size_t n,
                           unsigned char* precise) {
    const auto at = [&](std::size_t i, std::size_t count) {
      return is_precise(L::load(x, i, count), computed == nullptr ? nullptr : computed + i, count, wanted);
    };
    typename L::I all = ~typename L::I{};
    const std::size_t whole = n / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes) all = all & at(i, lanes);
    bool any_open = whole < n;
    for (std::size_t lane = 0; lane < lanes; ++lane) any_open = any_open || all[lane] == 0;
    if (!any_open) return 0;
    std::size_t open = 0;
    pieces(n, [&](std::size_t i, std::size_t count) {
      const typename L::I fine = at(i, count);
      for (std::size_t lane = 0; lane < count; ++lane) {
        precise[i + lane] = fine[lane] != 0 ? 1 : 0;
        open += fine[lane] != 0 ? 0 : 1;
      }
    });
    return open;
  }
};

template <class Set>
constexpr PairKernels pair_kernels(const char* name) {
  using Loops = PairLoops<Set>;
  return {name,
          &Loops::add,
          &Loops::subtract,
          &Loops::multiply,
          &Loops::divide,
          &Loops::square_root,
          &Loops::rectified,
          &Loops::absolute,
          &Loops::maximum,
          &Loops::minimum,
          &Loops::norm,
          &Loops::cap,
          &Loops::spread,
          &Loops::judge};
}

}  // namespace
}  // namespace driftbound
