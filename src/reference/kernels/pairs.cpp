// Loops over balls with double-double midpoints. What is fused is written so.

#include "reference/kernels/pairs.hpp"

#include "simd/vector.hpp"

namespace driftbound {
namespace {

using simd::fma, simd::magnitude;

struct PairLanes {
  using D = simd::Native<double>;
  using I = D::Mask;
  static constexpr std::size_t lanes = D::lanes;
  static constexpr double infinity = __builtin_inf();
  /// More than the roundings of a dozen operations take off.
  static constexpr double outward = 1.0 + 0x1p-48, inward = 1.0 - 0x1p-48;
  static constexpr double unit = 0x1p-53, underflow = 0x1p-1070;

  /// x where the mask is true, 0 elsewhere.
  static D only_where(I mask, D x) { return where(mask, x, 0.0); }

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
  template <class Count>
  static Balls load(ConstPairs x, std::size_t i, Count count) {
    return {D::load(x.hi + i, count), D::load(x.lo + i, count), D::load(x.radius + i, count)};
  }
  template <class Count>
  static void store(const Balls& x, Pairs y, std::size_t i, Count count) {
    x.hi.store(y.hi + i, count);
    x.lo.store(y.lo + i, count);
    x.radius.store(y.radius + i, count);
  }
  static Balls negative(const Balls& x) { return {-x.hi, -x.lo, x.radius}; }
  /// The whole line where something is not finite.
  static Balls checked(const Balls& x) {
    const I finite = (x.hi + x.lo) * 0.0 + x.radius < infinity;
    return {only_where(finite, x.hi), only_where(finite, x.lo), where(finite, x.radius, infinity)};
  }
  static Balls select(I mask, const Balls& x, const Balls& y) {
    return {where(mask, x.hi, y.hi), where(mask, x.lo, y.lo), where(mask, x.radius, y.radius)};
  }
  static D reach(const Balls& x) { return magnitude(x.hi) + magnitude(x.lo); }

  // ---- functions of balls; `added` becomes what rounding adds to the radius

  static Balls sum(const Balls& a, const Balls& b, D& added) {
    const Sum high = two_sum(a.hi, b.hi), low = two_sum(a.lo, b.lo), middle = two_sum(high.error, low.value);
    const Sum midpoint = two_sum(high.value, middle.value);
    added = magnitude(low.error) + magnitude(middle.error);
    return {midpoint.value, midpoint.error, (a.radius + b.radius + added) * outward};
  }

  static Balls product(const Balls& a, const Balls& b, D& added) {
    const D high = a.hi * b.hi, residual = fma(a.hi, b.hi, -high);
    const D one_cross = fma(a.lo, b.hi, residual), low = fma(a.hi, b.lo, one_cross);
    const Sum midpoint = two_sum(high, low);
    const I is_zero = (a.hi == 0.0) | (b.hi == 0.0),
            plain = (a.lo == 0.0) & (b.lo == 0.0) & (magnitude(high) >= 0x1p-960);
    added = magnitude(a.lo * b.lo) + only_where(a.lo != 0.0, magnitude(one_cross) * unit) +
            only_where(b.lo != 0.0, magnitude(low) * unit);
    added = only_where(~(is_zero | plain), added + underflow) + only_where(plain, added);
    const D reach_a = reach(a), reach_b = reach(b);
    const D carried = reach_a * b.radius + reach_b * a.radius + a.radius * b.radius;
    const I carries =
        ((b.radius != 0.0) & ((reach_a != 0.0) | (a.radius != 0.0))) | ((a.radius != 0.0) & (reach_b != 0.0));
    return {midpoint.value, midpoint.error, (carried + only_where(carries, D(underflow)) + added) * outward};
  }

  /// |x| at most, for x in a ball.
  static D most(const Balls& x) { return (reach(x) + x.radius) * outward; }

  static Balls quotient(const Balls& a, const Balls& b) {
    const D first = a.hi / b.hi, back = first * b.hi, error = fma(first, b.hi, -back);
    const D rest = ((a.hi - back) - error) + (a.lo - first * b.lo);
    const Sum q = two_sum(first, rest / b.hi);
    D added;
    const Balls left = sum(a, negative(product({q.value, q.error, D{}}, b, added)), added);
    const D at_most = most(left), gap = magnitude(b.hi) * inward - b.radius;
    const D radius = at_most / (gap * inward) * outward + only_where(at_most != 0.0, D(underflow));
    return {q.value, q.error, where(gap > 0.0, radius, infinity)};
  }

  static Balls root(const Balls& x) {
    const D first = simd::square_root(x.hi), rest = fma(-first, first, x.hi) + x.lo;
    const Sum s = two_sum(first, rest / (2.0 * first));
    D added;
    const Balls near = {s.value, s.error, D{}}, left = sum(x, negative(product(near, near, added)), added);
    const D at_most = most(left);
    const D radius = at_most / (s.value * inward) * outward + only_where(at_most != 0.0, D(underflow));
    const I is_zero = (x.hi == 0.0) & (x.radius == 0.0), positive = (x.hi > 0.0) & (x.hi * inward >= x.radius);
    return select(is_zero, {D{}, D{}, D{}}, {s.value, s.error, where(positive, radius, infinity)});
  }

  static Balls rectified(const Balls& x) {
    const I below = x.hi < 0.0, certain = magnitude(x.hi) * inward >= x.radius;
    const Balls cut = {D{}, D{}, where(certain, 0.0, x.radius)};
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
    const I apart = magnitude(distance.hi) * inward >= distance.radius;
    const Balls winner = select(first, a, b);
    return {winner.hi, winner.lo, where(apart, winner.radius, larger(a.radius, b.radius))};
  }
};

struct PairLoops {
  using L = PairLanes;
  using D = L::D;
  using Balls = L::Balls;
  static constexpr std::size_t lanes = L::lanes;
  static constexpr double infinity = L::infinity;

  template <class F>
  static void unary(Pairs y, ConstPairs x, std::size_t n, F f) {
    simd::in_vectors<lanes>(
        n, [&](std::size_t i, auto count) { L::store(L::checked(f(L::load(x, i, count))), y, i, count); });
  }
  template <class F>
  static void binary(Pairs y, ConstPairs a, ConstPairs b, std::size_t n, F f) {
    simd::in_vectors<lanes>(n, [&](std::size_t i, auto count) {
      L::store(L::checked(f(L::load(a, i, count), L::load(b, i, count))), y, i, count);
    });
  }
  template <class F>
  static double rounded(Pairs y, ConstPairs a, ConstPairs b, std::size_t n, F f) {
    D most{};
    binary(y, a, b, n, [&](const Balls& one, const Balls& other) {
      D added{};
      const Balls result = f(one, other, added);
      most = larger(added, most);
      return result;
    });
    return simd::largest_of(most) * L::outward;
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
    binary(y, a, b, n, [](const Balls& one, const Balls& other) { return L::extremum<1>(one, other); });
  }
  static void minimum(Pairs y, ConstPairs a, ConstPairs b, std::size_t n) {
    binary(y, a, b, n, [](const Balls& one, const Balls& other) { return L::extremum<-1>(one, other); });
  }

  /// In eight chains, however many lanes there are: the same bits everywhere.
  static double norm(const double* radius, std::size_t n) {
    constexpr std::size_t chains = 8, vectors = chains / lanes;
    D squares[vectors] = {}, most{};
    for (std::size_t i = 0; i < n; i += chains) {
      for (std::size_t v = 0; v < vectors && i + v * lanes < n; ++v) {
        const std::size_t left = n - i - v * lanes;
        const D r = D::load(radius + i + v * lanes, left < lanes ? left : lanes);
        squares[v] = squares[v] + r * r;
        most = larger(r, most);
      }
    }
    double sum = 0.0;
    for (std::size_t c = 0; c < chains; ++c) sum += squares[c / lanes][c % lanes];
    const double largest = simd::largest_of(most), count = static_cast<double>(n),
                 upward = 1.0 + (count + 16.0) * 0x1p-52;
    const bool plain = largest > 0x1p-400 && largest < 0x1p500;
    if (plain || largest == 0.0) return __builtin_sqrt(sum) * upward;
    return __builtin_sqrt(count) * upward * largest + L::underflow;
  }

  static void cap(double* radius, double most, std::size_t n) {
    simd::in_vectors<lanes>(n, [&](std::size_t i, auto count) {
      const D r = D::load(radius + i, count);
      smaller(r, D(most)).store(radius + i, count);
    });
  }

  static void spread(double* radius, double norm_r, const double* norm_w, std::size_t n) {
    if (norm_r == 0.0) return;
    simd::in_vectors<lanes>(n, [&](std::size_t i, auto count) {
      const D norm = D::load(norm_w + i, count);
      const D more = norm * norm_r + L::only_where(norm != 0.0, D(L::underflow));
      const D together = (D::load(radius + i, count) + more) * L::outward;
      where(together * 0.0 == 0.0, together, infinity).store(radius + i, count);
    });
  }

  template <class Count>
  static L::I is_precise(const Balls& ball, const double* computed, Count count, const WantedPrecision& wanted) {
    L::I fine = ball.radius <= wanted.relative_radius * magnitude(ball.hi);
    if (computed != nullptr) {
      const D value = D::load(computed, count), size = magnitude(value);
      const L::Sum distance = L::two_sum(value, -ball.hi);
      const D error = magnitude(distance.value + (distance.error - ball.lo));
      const L::I is_error = error > ball.radius, measures_it = ball.radius <= wanted.error_ratio * error;
      const L::I is_fine_enough = ball.radius <= wanted.of_computed * size + wanted.absolute;
      fine = (is_error & measures_it) | (~is_error & fine) | ((size < infinity) & is_fine_enough);
    }
    return fine & (ball.radius < L::infinity);
  }

  static std::size_t judge(ConstPairs x, const double* computed, const WantedPrecision& wanted, std::size_t n,
                           unsigned char* precise) {
    const auto at = [&](std::size_t i, auto count) {
      return is_precise(L::load(x, i, count), computed == nullptr ? nullptr : computed + i, count, wanted);
    };
    L::I all = ~L::I{};
    const std::size_t whole = n / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes) all &= at(i, simd::Whole<lanes>());
    if (whole == n && simd::every(all)) return 0;
    std::size_t open = 0;
    simd::in_vectors<lanes>(n, [&](std::size_t i, auto count) {
      const L::I fine = at(i, count);
      for (std::size_t lane = 0; lane < count; ++lane) {
        precise[i + lane] = fine[lane] != 0 ? 1 : 0;
        open += fine[lane] != 0 ? std::size_t{0} : std::size_t{1};
      }
    });
    return open;
  }
};

}  // namespace

const PairKernels DRIFTBOUND_SIMD_NAME(pairs) = {
    DRIFTBOUND_SIMD_TARGET_NAME, &PairLoops::add,         &PairLoops::subtract,  &PairLoops::multiply,
    &PairLoops::divide,          &PairLoops::square_root, &PairLoops::rectified, &PairLoops::absolute,
    &PairLoops::maximum,         &PairLoops::minimum,     &PairLoops::norm,      &PairLoops::cap,
    &PairLoops::spread,          &PairLoops::judge};

}  // namespace driftbound
