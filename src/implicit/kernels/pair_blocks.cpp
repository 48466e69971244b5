// Loops over blocks of sums of two doubles, as double_double_arithmetic.hpp says.

#include "implicit/kernels/pair_blocks.hpp"

#include "num/kernels/double_double_arithmetic.hpp"

namespace driftbound::implicit {
namespace {

using simd::fma;

/// Vectors of rows and outputs of a tile: what the processor's registers hold.
constexpr std::size_t tile_vectors = simd::register_bytes == 16 ? 1 : 2;
constexpr std::size_t tile_outputs = simd::register_bytes == 64 ? 4 : 2;

struct PairBlocks {
  using A = num::DoubleDoubleArithmetic;
  using D = A::D;
  using I = A::I;
  using Pair = A::Pair;
  static constexpr std::size_t lanes = D::lanes;

  static Pair load(const double* p) { return {D::load(p), D::load(p + pair_rows)}; }
  static void store(Pair x, double* p) {
    x.high.store(p);
    x.low.store(p + pair_rows);
  }
  static Pair zero() { return {D{}, D{}}; }
  static Pair rectified_of(Pair x) { return A::choose(x.high < 0.0, zero(), x); }
  static Pair negative_of(Pair x) { return A::choose(x.high > 0.0, zero(), x); }

  /// A sum of products, and what has been lost of it.
  struct Sum {
    D high, lost;
  };
  static Sum first_product(D w, Pair x) {
    const D p = w * x.high;
    return {p, fma(w, x.low, fma(w, x.high, -p))};
  }
  static Sum next_sum(Sum s, D w, Pair x) {
    const D high = s.high + w * x.high, z = high - s.high;
    const D delta = s.high - (high - z), epsilon = fma(w, x.high, -z);
    return {high, s.lost + (delta + fma(w, x.low, epsilon))};
  }
  static Pair with_bias(Sum s, D bias) {
    const Pair t = A::two_sum(s.high, bias);
    return A::two_sum(t.high, s.lost + t.low);
  }

  static void dense_tile(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                         bool rectified, double* check) {
    Sum sums[tile_outputs][tile_vectors];
    Pair at[tile_vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = load(x + v * lanes);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < tile_outputs; ++j)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < tile_vectors; ++v) sums[j][v] = first_product(D(weights[j]), at[v]);
    for (std::size_t k = 1; k < inputs; ++k) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = load(x + 2 * k * pair_rows + v * lanes);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < tile_outputs; ++j) {
        const D w = D(weights[k * pair_outputs + j]);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < tile_vectors; ++v) sums[j][v] = next_sum(sums[j][v], w, at[v]);
      }
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < tile_vectors; ++v) {
      D of_rows = D::load(check + v * lanes);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < tile_outputs; ++j) {
        const Pair result = with_bias(sums[j][v], D(bias[j]));
        of_rows = of_rows + result.high * 0.0;
        store(rectified ? rectified_of(result) : result, y + 2 * j * pair_rows + v * lanes);
      }
      of_rows.store(check + v * lanes);
    }
  }

  static void dense(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                    std::size_t outputs, bool rectified, double* check) {
    constexpr std::size_t rows = tile_vectors * lanes;
    static_assert(pair_rows % rows == 0 && pair_outputs % tile_outputs == 0);
    for (std::size_t j = 0; j < outputs; j += tile_outputs) {
      const double* const tile = weights + j / pair_outputs * pair_outputs * inputs + j % pair_outputs;
      for (std::size_t row = 0; row < pair_rows; row += rows)
        dense_tile(tile, bias + j, x + row, y + 2 * j * pair_rows + row, inputs, rectified, check + row);
    }
  }

  /// y = f(feature, place) for all vectors of a block.
  template <class F>
  static void each(double* y, std::size_t features, double* check, const F& f) {
    for (std::size_t row = 0; row < pair_rows; row += lanes) {
      D of_rows = D::load(check + row);
      for (std::size_t feature = 0; feature < features; ++feature) {
        const Pair result = f(feature, 2 * feature * pair_rows + row);
        of_rows = of_rows + result.high * 0.0;
        store(result, y + 2 * feature * pair_rows + row);
      }
      of_rows.store(check + row);
    }
  }

  static I is_in_range(D x) {
    const D size = simd::magnitude(x);
    return (size >= 0x1p-900) & (size <= 0x1p900);
  }
  static Pair quotient(Pair x, Pair y) {
    const Pair q = A::quotient(x, y);
    const I is_covered = is_in_range(y.high) & ((is_in_range(x.high) & is_in_range(q.high)) | (x.high == 0.0));
    return A::choose(is_covered, q, {D(__builtin_nan("")), D{}});
  }
  static I is_below(Pair x, Pair y) {
    return (x.high < y.high) | ((x.high == y.high) & (x.low < y.low));
  }

  struct Add {
    static Pair of(Pair x, Pair y) { return A::sum(x, y); }
    static Pair of(Pair x, D c) { return A::sum(c, x); }
  };
  struct Subtract {
    static Pair of(Pair x, Pair y) { return A::sum(x, {-y.high, -y.low}); }
    static Pair of(Pair x, D c) { return A::sum(-c, x); }
  };
  struct Multiply {
    static Pair of(Pair x, Pair y) { return A::product(x, y); }
    static Pair of(Pair x, D c) { return A::product(c, x); }
  };
  struct Divide {
    static Pair of(Pair x, Pair y) { return quotient(x, y); }
    static Pair of(Pair x, D c) { return quotient(x, {c, D{}}); }
  };
  struct Maximum {
    static Pair of(Pair x, Pair y) { return A::choose(is_below(x, y), y, x); }
    static Pair of(Pair x, D c) { return of(x, {c, D{}}); }
  };
  struct Minimum {
    static Pair of(Pair x, Pair y) { return A::choose(is_below(y, x), y, x); }
    static Pair of(Pair x, D c) { return of(x, {c, D{}}); }
  };

  template <class Operation>
  static void of_values(const double* a, const double* b, double* y, std::size_t features, double* check) {
    each(y, features, check, [&](std::size_t, std::size_t i) { return Operation::of(load(a + i), load(b + i)); });
  }
  template <class Operation>
  static void with_constants(const double* a, const double* b, double* y, std::size_t features, double* check) {
    each(y, features, check, [&](std::size_t f, std::size_t i) { return Operation::of(load(a + i), D(b[f])); });
  }
  static void join(const double* x, double alpha, double* y, std::size_t features, double* check) {
    each(y, features, check, [&](std::size_t, std::size_t i) {
      const Pair at = load(x + i);
      return A::choose(at.high < 0.0, A::product(D(alpha), load(y + i)), at);
    });
  }
  template <class F>
  static void each_part(const double* x, double* y, std::size_t features, const F& f) {
    for (std::size_t feature = 0; feature < features; ++feature)
      for (std::size_t row = 0; row < pair_rows; row += lanes) {
        const std::size_t i = 2 * feature * pair_rows + row;
        store(f(load(x + i)), y + i);
      }
  }
  static void rectify(const double* x, double* y, std::size_t features) {
    each_part(x, y, features, [](Pair at) { return rectified_of(at); });
  }
  static void negative_part(const double* x, double* y, std::size_t features) {
    each_part(x, y, features, [](Pair at) { return negative_of(at); });
  }
};

using B = PairBlocks;

}  // namespace

const PairBlockKernels DRIFTBOUND_SIMD_NAME(pair_blocks) = {
    DRIFTBOUND_SIMD_TARGET_NAME,
    &B::dense,
    {&B::of_values<B::Add>, &B::of_values<B::Subtract>, &B::of_values<B::Multiply>, &B::of_values<B::Divide>,
     &B::of_values<B::Maximum>, &B::of_values<B::Minimum>},
    {&B::with_constants<B::Add>, &B::with_constants<B::Subtract>, &B::with_constants<B::Multiply>,
     &B::with_constants<B::Divide>, &B::with_constants<B::Maximum>, &B::with_constants<B::Minimum>},
    &B::join,
    &B::rectify,
    &B::negative_part};

}  // namespace driftbound::implicit
