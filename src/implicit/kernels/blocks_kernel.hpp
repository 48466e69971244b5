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

/// V: a vector of doubles. `outputs` outputs of a tile of `width` for tile_vectors vectors of rows.
template <class V, std::size_t outputs, std::size_t width>
inline void dense_tile(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                       bool rectified, V* check) {
  V sum[outputs][tile_vectors];
  V at[tile_vectors];
#pragma GCC unroll 3
  for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = V::load(x + v * V::lanes);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < outputs; ++j) {
    const V weight = V::all(weights[j]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = multiply(weight, at[v]);
  }
  for (std::size_t k = 1; k < inputs; ++k) {
    const double* const row = weights + k * width;
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = V::load(x + k * block_rows + v * V::lanes);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < outputs; ++j) {
      const V weight = V::all(row[j]);
#pragma GCC unroll 3
      for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = multiply_add(weight, at[v], sum[j][v]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t j = 0; j < outputs; ++j) {
    const V addend = V::all(bias[j]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) {
      V result = add(sum[j][v], addend);
      check[v] = multiply_add(result, V::all(0.0), check[v]);
      if (rectified) result = rectified_of(result);
      result.store(y + j * block_rows + v * V::lanes);
    }
  }
}

template <class V>
inline void dense_group(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                        std::size_t outputs, bool rectified, V* check) {
  std::size_t j = 0;
  for (; j + tile_outputs <= outputs; j += tile_outputs)
    for (std::size_t part = 0; part < tile_outputs; part += V::outputs)
      dense_tile<V, V::outputs, tile_outputs>(weights + j * inputs + part, bias + j + part, x,
                                              y + (j + part) * block_rows, inputs, rectified, check);
  const double* const rest = weights + j * inputs;
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
void dense(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
           std::size_t outputs, bool rectified, double* check) {
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
inline void dense_tiles_of_point(const double* weights, const double* bias, const double* x, double* y,
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
    const double* const row = weights + k * width;
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
      *check = multiply_add(result, V::all(0.0), *check);
      if (rectified) result = rectified_of(result);
      result.store(y + j);
    }
}

/// NaN in any lane becomes NaN of the row.
template <class V>
void merge_check(V of_lanes, double* check) {
  double lanes[V::lanes];
  of_lanes.store(lanes);
  for (const double lane : lanes) *check += lane;
}

template <class V>
void dense_of_point(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                    std::size_t outputs, bool rectified, double* check) {
  constexpr std::size_t most_tiles = V::lanes;  // sums in registers enough to hide their latency
  V of_lanes = V::all(0.0);
  std::size_t j = 0;
  for (; j + most_tiles * tile_outputs <= outputs; j += most_tiles * tile_outputs)
    dense_tiles_of_point<V, most_tiles>(weights + j * inputs, bias + j, x, y + j, inputs, tile_outputs, rectified,
                                        &of_lanes);
  for (; j + tile_outputs <= outputs; j += tile_outputs)
    dense_tiles_of_point<V, 1>(weights + j * inputs, bias + j, x, y + j, inputs, tile_outputs, rectified, &of_lanes);
  if (const std::size_t left = outputs - j; left > 0) {
    double last_bias[tile_outputs] = {}, last[tile_outputs];
    for (std::size_t i = 0; i < left; ++i) last_bias[i] = bias[j + i];
    V of_neighbours = V::all(0.0);  // lanes beyond the last output
    dense_tiles_of_point<V, 1>(weights + j * inputs, last_bias, x, last, inputs, left, false, &of_neighbours);
    for (std::size_t i = 0; i < left; ++i) {
      *check += last[i] * 0.0;
      y[j + i] = rectified && last[i] < 0.0 ? 0.0 : last[i];
    }
  }
  merge_check(of_lanes, check);
}

/// y = f(feature, place) for all vectors of a block.
template <class V, class F>
inline void each(double* y, std::size_t features, double* check, const F& f) {
  for (std::size_t row = 0; row < block_rows; row += V::lanes) {
    V of_rows = V::load(check + row);
    for (std::size_t feature = 0; feature < features; ++feature) {
      const V result = f(feature, feature * block_rows + row);
      of_rows = multiply_add(result, V::all(0.0), of_rows);
      result.store(y + feature * block_rows + row);
    }
    of_rows.store(check + row);
  }
}

/// `count` elements and others after them.
template <class V>
V loaded(const double* p, std::size_t count, double others = 0.0) {
  if (count == V::lanes) return V::load(p);
  double padded[V::lanes];
  for (double& x : padded) x = others;
  for (std::size_t i = 0; i < count; ++i) padded[i] = p[i];
  return V::load(padded);
}
template <class V>
void stored(const V& x, double* p, std::size_t count) {
  if (count == V::lanes) return x.store(p);
  double padded[V::lanes];
  x.store(padded);
  for (std::size_t i = 0; i < count; ++i) p[i] = padded[i];
}

/// y = f(place, count) for n elements side by side, at most a vector of them at a time.
template <class V, class F>
inline void in_turn(double* y, std::size_t n, const F& f) {
  for (std::size_t i = 0; i < n; i += V::lanes) {
    const std::size_t count = n - i < V::lanes ? n - i : V::lanes;
    stored(f(i, count), y + i, count);
  }
}
template <class V, class F>
inline void each_of_point(double* y, std::size_t features, double* check, const F& f) {
  V of_lanes = V::all(0.0);
  in_turn<V>(y, features, [&](std::size_t i, std::size_t count) {
    const V result = f(i, count);
    of_lanes = multiply_add(result, V::all(0.0), of_lanes);
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
void pair_of_blocks(const double* a, const double* b, double* y, std::size_t features, double* check) {
  each<V>(y, features, check,
          [&](std::size_t, std::size_t i) { return Operation::of(V::load(a + i), V::load(b + i)); });
}
/// b: one number a feature
template <class V, class Operation>
void block_and_constants(const double* a, const double* b, double* y, std::size_t features, double* check) {
  each<V>(y, features, check,
          [&](std::size_t f, std::size_t i) { return Operation::of(V::load(a + i), V::all(b[f])); });
}
template <class V, class Operation>
void pair_of_points(const double* a, const double* b, double* y, std::size_t features, double* check) {
  each_of_point<V>(y, features, check, [&](std::size_t i, std::size_t count) {
    return Operation::of(loaded<V>(a + i, count), loaded<V>(b + i, count, 1.0));  // 0 / 0 would be no number
  });
}
template <class V>
void join_blocks(const double* x, double alpha, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) {
    return where_negative(V::load(x + i), multiply(V::load(y + i), V::all(alpha)));
  });
}
template <class V>
void join_of_point(const double* x, double alpha, double* y, std::size_t features, double* check) {
  each_of_point<V>(y, features, check, [&](std::size_t i, std::size_t count) {
    return where_negative(loaded<V>(x + i, count), multiply(loaded<V>(y + i, count), V::all(alpha)));
  });
}
template <class V>
void rectify(const double* x, double* y, std::size_t n) {
  in_turn<V>(y, n, [&](std::size_t i, std::size_t count) { return rectified_of(loaded<V>(x + i, count)); });
}
template <class V>
void negative_part(const double* x, double* y, std::size_t n) {
  in_turn<V>(y, n, [&](std::size_t i, std::size_t count) { return negative_of(loaded<V>(x + i, count)); });
}

template <class V, class Operation>
constexpr BlockKernels::Both<BlockKernels::Pair> of_values{&pair_of_blocks<V, Operation>,
                                                           &pair_of_points<V, Operation>};
template <class V, class Operation>
constexpr BlockKernels::Both<BlockKernels::Pair> of_constants{&block_and_constants<V, Operation>,
                                                              &pair_of_points<V, Operation>};

/// Set: as bounds::Lanes and Functions.
template <class V, class Set>
constexpr BlockKernels block_kernels(const char* name) {
  using bounds::function;
  return {name,
          {&dense<V>, &dense_of_point<V>},
          of_values<V, Sum>,
          of_values<V, Difference>,
          of_values<V, Product>,
          of_values<V, Quotient>,
          of_values<V, Maximum>,
          of_values<V, Minimum>,
          of_constants<V, Sum>,
          of_constants<V, Product>,
          of_constants<V, Quotient>,
          of_constants<V, Maximum>,
          of_constants<V, Minimum>,
          {&join_blocks<V>, &join_of_point<V>},
          &rectify<V>,
          &negative_part<V>,
          &function<Set, bounds::Exp>,
          &function<Set, bounds::Expm1>,
          &tanh<Set>,
          &function<Set, bounds::Sigmoid>,
          &function<Set, bounds::Softplus>,
          &sine<Set, false>,
          &sine<Set, true>,
          &sine_of_multiple<Set, false>,
          &sine_of_multiple<Set, true>};
}

}  // namespace
}  // namespace driftbound::implicit
