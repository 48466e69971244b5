#pragma once

// Loops over blocks, written once and compiled once per instruction set. Everything here has internal linkage and calls
// no inline function of another header: code compiled for a newer processor must not be shared with the rest of the
// program.

#include <cstddef>

#include "bounds/kernels/elements_kernel.hpp"
#include "implicit/kernels/blocks.hpp"
#include "implicit/kernels/functions_kernel.hpp"

namespace driftbound::implicit {
namespace {

/// Vectors of rows that a tile holds in registers.
constexpr std::size_t tile_vectors = 3;

template <class V>
using RealOf = typename V::Real;

/// V: a vector of numbers V::Real. The sum of products [first, last) for `outputs` outputs of a tile of `width`, for
/// tile_vectors vectors of rows.
template <class V, std::size_t outputs, std::size_t width>
inline void chain(const RealOf<V>* weights, const RealOf<V>* x, std::size_t first, std::size_t last,
                  V (&sum)[outputs][tile_vectors]) {
  V at[tile_vectors];
#pragma GCC unroll 3
  for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = V::load(x + first * block_rows + v * V::lanes);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < outputs; ++j) {
    const V weight = V::all(weights[first * width + j]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = multiply(weight, at[v]);
  }
  for (std::size_t k = first + 1; k < last; ++k) {
    const RealOf<V>* const row = weights + k * width;
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = V::load(x + k * block_rows + v * V::lanes);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < outputs; ++j) {
      const V weight = V::all(row[j]);
#pragma GCC unroll 3
      for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = multiply_add(weight, at[v], sum[j][v]);
    }
  }
}

template <class V, std::size_t outputs, std::size_t width>
inline void add_chains(const RealOf<V>* weights, const RealOf<V>* x, std::size_t inputs,
                       V (&sum)[outputs][tile_vectors]) {
  for (std::size_t first = chain_products; first < inputs; first += chain_products) {
    V part[outputs][tile_vectors];
    chain<V, outputs, width>(weights, x, first, inputs - first < chain_products ? inputs : first + chain_products,
                             part);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < outputs; ++j)
#pragma GCC unroll 3
      for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = add(sum[j][v], part[j][v]);
  }
}

template <class V, std::size_t outputs, std::size_t width>
inline void dense_tile(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                       std::size_t inputs, bool rectified, V* check) {
  constexpr bool is_double = sizeof(RealOf<V>) == sizeof(double);
  V sum[outputs][tile_vectors];
  chain<V, outputs, width>(weights, x, 0, is_double || inputs < chain_products ? inputs : chain_products, sum);
  if constexpr (!is_double) add_chains<V, outputs, width>(weights, x, inputs, sum);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < outputs; ++j) {
    const V addend = V::all(bias[j]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) {
      V result = add(sum[j][v], addend);
      check[v] = multiply_add(result, V::all(0), check[v]);
      if (rectified) result = rectified_of(result);
      result.store(y + j * block_rows + v * V::lanes);
    }
  }
}

template <class V>
inline void dense_group(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                        std::size_t inputs, std::size_t outputs, bool rectified, V* check) {
  std::size_t j = 0;
  for (; j + tile_outputs <= outputs; j += tile_outputs)
    for (std::size_t part = 0; part < tile_outputs; part += V::outputs)
      dense_tile<V, V::outputs, tile_outputs>(weights + j * inputs + part, bias + j + part, x,
                                              y + (j + part) * block_rows, inputs, rectified, check);
  const RealOf<V>* const rest = weights + j * inputs;
  bias += j;
  y += j * block_rows;
  switch (outputs - j) {
    case 1:
      return dense_tile<V, 1, 1>(rest, bias, x, y, inputs, rectified, check);
    case 2:
      return dense_tile<V, 2, 2>(rest, bias, x, y, inputs, rectified, check);
    case 4:
      return dense_tile<V, 4, 4>(rest, bias, x, y, inputs, rectified, check);
  }
}

template <class V>
void dense(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y, std::size_t inputs,
           std::size_t outputs, bool rectified, RealOf<V>* check) {
  constexpr std::size_t rows = tile_vectors * V::lanes;
  static_assert(block_rows % rows == 0);
  for (std::size_t row = 0; row < block_rows; row += rows) {
    V of_rows[tile_vectors];
    for (std::size_t v = 0; v < tile_vectors; ++v) of_rows[v] = V::load(check + row + v * V::lanes);
    dense_group<V>(weights, bias, x + row, y + row, inputs, outputs, rectified, of_rows);
    for (std::size_t v = 0; v < tile_vectors; ++v) of_rows[v].store(check + row + v * V::lanes);
  }
}

/// Outputs of `tiles` tiles of `width`, of which no more than a tile is used where it is one.
template <class V, std::size_t tiles>
inline void dense_tiles_of_point(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                                 std::size_t inputs, std::size_t width, bool rectified, V* check) {
  constexpr std::size_t vectors = tile_outputs / V::lanes;
  V sum[tiles][vectors];
  const V first = V::all(x[0]);
#pragma GCC unroll 8
  for (std::size_t tile = 0; tile < tiles; ++tile)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v)
      sum[tile][v] = multiply(V::load(weights + tile * tile_outputs * inputs + v * V::lanes), first);
  for (std::size_t k = 1; k < inputs; ++k) {
    const RealOf<V>* const row = weights + k * width;
    const V at = V::all(x[k]);
#pragma GCC unroll 8
    for (std::size_t tile = 0; tile < tiles; ++tile)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v)
        sum[tile][v] = multiply_add(V::load(row + tile * tile_outputs * inputs + v * V::lanes), at, sum[tile][v]);
  }
  for (std::size_t tile = 0; tile < tiles; ++tile)
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t j = tile * tile_outputs + v * V::lanes;
      V result = add(sum[tile][v], V::load(bias + j));
      *check = multiply_add(result, V::all(0), *check);
      if (rectified) result = rectified_of(result);
      result.store(y + j);
    }
}

/// NaN in any lane becomes NaN of the row.
template <class V>
void merge_check(V of_lanes, RealOf<V>* check) {
  RealOf<V> lanes[V::lanes];
  of_lanes.store(lanes);
  for (const RealOf<V> lane : lanes) *check += lane;
}

template <class V>
void dense_of_point(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                    std::size_t inputs, std::size_t outputs, bool rectified, RealOf<V>* check) {
  constexpr std::size_t most_tiles = V::lanes;  // sums in registers enough to hide their latency
  V of_lanes = V::all(0);
  std::size_t j = 0;
  for (; j + most_tiles * tile_outputs <= outputs; j += most_tiles * tile_outputs)
    dense_tiles_of_point<V, most_tiles>(weights + j * inputs, bias + j, x, y + j, inputs, tile_outputs, rectified,
                                        &of_lanes);
  for (; j + tile_outputs <= outputs; j += tile_outputs)
    dense_tiles_of_point<V, 1>(weights + j * inputs, bias + j, x, y + j, inputs, tile_outputs, rectified, &of_lanes);
  if (const std::size_t left = outputs - j; left > 0) {
    RealOf<V> last_bias[tile_outputs] = {}, last[tile_outputs];
    for (std::size_t i = 0; i < left; ++i) last_bias[i] = bias[j + i];
    V of_neighbours = V::all(0);  // lanes beyond the last output
    dense_tiles_of_point<V, 1>(weights + j * inputs, last_bias, x, last, inputs, left, false, &of_neighbours);
    for (std::size_t i = 0; i < left; ++i) {
      *check += last[i] * RealOf<V>{0};
      y[j + i] = rectified && last[i] < 0 ? RealOf<V>{0} : last[i];
    }
  }
  merge_check(of_lanes, check);
}

/// y = f(feature, place) for all vectors of a block.
template <class V, class F>
inline void each(RealOf<V>* y, std::size_t features, RealOf<V>* check, const F& f) {
  for (std::size_t row = 0; row < block_rows; row += V::lanes) {
    V of_rows = V::load(check + row);
    for (std::size_t feature = 0; feature < features; ++feature) {
      const V result = f(feature, feature * block_rows + row);
      of_rows = multiply_add(result, V::all(0), of_rows);
      result.store(y + feature * block_rows + row);
    }
    of_rows.store(check + row);
  }
}

/// `count` elements and others after them.
template <class V>
V loaded(const RealOf<V>* p, std::size_t count, RealOf<V> others = 0) {
  if (count == V::lanes) return V::load(p);
  RealOf<V> padded[V::lanes];
  for (RealOf<V>& x : padded) x = others;
  for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
  return V::load(padded);
}
template <class V>
void stored(const V& x, RealOf<V>* p, std::size_t count) {
  if (count == V::lanes) return x.store(p);
  RealOf<V> padded[V::lanes];
  x.store(padded);
  for (std::size_t i = 0; i < count; ++i) p[i] = padded[i];
}

/// y = f(place, count) for n elements side by side, at most a vector of them at a time.
template <class V, class F>
inline void in_turn(RealOf<V>* y, std::size_t n, const F& f) {
  for (std::size_t i = 0; i < n; i += V::lanes) {
    const std::size_t count = n - i < V::lanes ? n - i : V::lanes;
    stored(f(i, count), y + i, count);
  }
}
template <class V, class F>
inline void each_of_point(RealOf<V>* y, std::size_t features, RealOf<V>* check, const F& f) {
  V of_lanes = V::all(0);
  in_turn<V>(y, features, [&](std::size_t i, std::size_t count) {
    const V result = f(i, count);
    of_lanes = multiply_add(result, V::all(0), of_lanes);
    return result;
  });
  merge_check(of_lanes, check);
}

struct Sum {
  template <class V>
  static V of(const V& a, const V& b) {
    return add(a, b);
  }
};
struct Difference {
  template <class V>
  static V of(const V& a, const V& b) {
    return subtract(a, b);
  }
};
struct Product {
  template <class V>
  static V of(const V& a, const V& b) {
    return multiply(a, b);
  }
};

struct Quotient {
  template <class V>
  static V of(const V& a, const V& b) {
    return divide(a, b);
  }
};
struct Maximum {
  template <class V>
  static V of(const V& a, const V& b) {
    return maximum(a, b);
  }
};
struct Minimum {
  template <class V>
  static V of(const V& a, const V& b) {
    return minimum(a, b);
  }
};

template <class V, class Operation>
void pair_of_blocks(const RealOf<V>* a, const RealOf<V>* b, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each<V>(y, features, check,
          [&](std::size_t, std::size_t i) { return Operation::of(V::load(a + i), V::load(b + i)); });
}
/// b: one number a feature
template <class V, class Operation>
void block_and_constants(const RealOf<V>* a, const RealOf<V>* b, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each<V>(y, features, check,
          [&](std::size_t f, std::size_t i) { return Operation::of(V::load(a + i), V::all(b[f])); });
}
template <class V, class Operation>
void pair_of_points(const RealOf<V>* a, const RealOf<V>* b, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each_of_point<V>(y, features, check, [&](std::size_t i, std::size_t count) {
    return Operation::of(loaded<V>(a + i, count), loaded<V>(b + i, count, 1));  // 0 / 0 would be no number
  });
}
template <class V>
void join_blocks(const RealOf<V>* x, RealOf<V> alpha, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) {
    return where_negative(V::load(x + i), multiply(V::load(y + i), V::all(alpha)));
  });
}
template <class V>
void join_of_point(const RealOf<V>* x, RealOf<V> alpha, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each_of_point<V>(y, features, check, [&](std::size_t i, std::size_t count) {
    return where_negative(loaded<V>(x + i, count), multiply(loaded<V>(y + i, count), V::all(alpha)));
  });
}
template <class V>
void rectify(const RealOf<V>* x, RealOf<V>* y, std::size_t n) {
  in_turn<V>(y, n, [&](std::size_t i, std::size_t count) { return rectified_of(loaded<V>(x + i, count)); });
}
template <class V>
void negative_part(const RealOf<V>* x, RealOf<V>* y, std::size_t n) {
  in_turn<V>(y, n, [&](std::size_t i, std::size_t count) { return negative_of(loaded<V>(x + i, count)); });
}

/// Those of T-113 in both formats.
template <class Set>
constexpr void add_functions(BlockKernelsOf<typename Set::Real>& kernels) {
  kernels.fuses = requires(typename Set::Reals x) {
    Set::fma(x, x, x);
  };
  kernels.tanh = &tanh<Set>;
  kernels.sin = &sine<Set, false>;
  kernels.cos = &sine<Set, true>;
  kernels.sin_of_multiple = &sine_of_multiple<Set, false>;
  kernels.cos_of_multiple = &sine_of_multiple<Set, true>;
}

/// Loops over one point are of float64 alone.
template <class V>
constexpr bool has_point = sizeof(RealOf<V>) == sizeof(double);

template <class V, class Operation>
constexpr auto of_point() -> typename BlockKernelsOf<RealOf<V>>::Pair {
  if constexpr (has_point<V>) return &pair_of_points<V, Operation>;
  return nullptr;
}
template <class V, class Operation>
constexpr typename BlockKernelsOf<RealOf<V>>::template Both<typename BlockKernelsOf<RealOf<V>>::Pair> of_values{
    &pair_of_blocks<V, Operation>, of_point<V, Operation>()};
template <class V, class Operation>
constexpr typename BlockKernelsOf<RealOf<V>>::template Both<typename BlockKernelsOf<RealOf<V>>::Pair> of_constants{
    &block_and_constants<V, Operation>, of_point<V, Operation>()};

/// All but the functions.
template <class V>
constexpr BlockKernelsOf<RealOf<V>> block_loops(const char* name) {
  BlockKernelsOf<RealOf<V>> loops{};
  loops.name = name;
  loops.dense.block = &dense<V>;
  loops.join.block = &join_blocks<V>;
  if constexpr (has_point<V>) {
    loops.dense.point = &dense_of_point<V>;
    loops.join.point = &join_of_point<V>;
  }
  loops.add = of_values<V, Sum>;
  loops.subtract = of_values<V, Difference>;
  loops.multiply = of_values<V, Product>;
  loops.divide = of_values<V, Quotient>;
  loops.maximum = of_values<V, Maximum>;
  loops.minimum = of_values<V, Minimum>;
  loops.shift = of_constants<V, Sum>;
  loops.scale = of_constants<V, Product>;
  loops.divide_by = of_constants<V, Quotient>;
  loops.at_least = of_constants<V, Maximum>;
  loops.at_most = of_constants<V, Minimum>;
  loops.rectify = &rectify<V>;
  loops.negative_part = &negative_part<V>;
  return loops;
}

/// Set: as bounds::Lanes and Functions.
template <class V, class Set>
constexpr BlockKernels block_kernels(const char* name) {
  using bounds::function;
  BlockKernels kernels = block_loops<V>(name);
  kernels.exp = &function<Set, bounds::Exp>;
  kernels.expm1 = &function<Set, bounds::Expm1>;
  kernels.sigmoid = &function<Set, bounds::Sigmoid>;
  kernels.softplus = &function<Set, bounds::Softplus>;
  add_functions<Set>(kernels);
  return kernels;
}

/// Set: as Functions.
template <class V, class Set>
constexpr FloatBlockKernels float_block_kernels(const char* name) {
  FloatBlockKernels kernels = block_loops<V>(name);
  kernels.expm1 = &expm1_below_0<Set>;
  kernels.sigmoid = &sigmoid<Set>;
  kernels.softplus = &softplus<Set>;
  add_functions<Set>(kernels);
  return kernels;
}

}  // namespace
}  // namespace driftbound::implicit
