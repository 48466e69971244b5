#pragma once

// Loops over blocks, written once and compiled once per instruction set. Everything here has internal linkage and calls
// no inline function of another header: code compiled for a newer processor must not be shared with the rest of the
// program.

#include <cstddef>

#include "bounds/kernels/elements_kernel.hpp"
#include "implicit/kernels/blocks.hpp"

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

template <class V>
void add_blocks(const double* a, const double* b, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) { return add(V::load(a + i), V::load(b + i)); });
}
template <class V>
void subtract_blocks(const double* a, const double* b, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) { return subtract(V::load(a + i), V::load(b + i)); });
}
template <class V>
void multiply_blocks(const double* a, const double* b, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) { return multiply(V::load(a + i), V::load(b + i)); });
}
template <class V>
void shift(const double* a, const double* c, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t f, std::size_t i) { return add(V::load(a + i), V::all(c[f])); });
}
template <class V>
void scale(const double* a, const double* c, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t f, std::size_t i) { return multiply(V::load(a + i), V::all(c[f])); });
}
template <class V>
void rectify(const double* x, double* y, std::size_t features) {
  for (std::size_t i = 0; i < features * block_rows; i += V::lanes) rectified_of(V::load(x + i)).store(y + i);
}
template <class V>
void negative_part(const double* x, double* y, std::size_t features) {
  for (std::size_t i = 0; i < features * block_rows; i += V::lanes) negative_of(V::load(x + i)).store(y + i);
}
template <class V>
void join(const double* x, double alpha, double* y, std::size_t features, double* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) {
    return where_negative(V::load(x + i), multiply(V::load(y + i), V::all(alpha)));
  });
}

/// Set: as bounds::Lanes.
template <class V, class Set>
constexpr BlockKernels block_kernels(const char* name) {
  using bounds::function;
  return {name,
          &dense<V>,
          &add_blocks<V>,
          &subtract_blocks<V>,
          &multiply_blocks<V>,
          &shift<V>,
          &scale<V>,
          &rectify<V>,
          &negative_part<V>,
          &join<V>,
          &function<Set, bounds::Exp>,
          &function<Set, bounds::Expm1>,
          &function<Set, bounds::Tanh>,
          &function<Set, bounds::Sigmoid>,
          &function<Set, bounds::Softplus>,
          &function<Set, bounds::Sin>,
          &function<Set, bounds::Cos>};
}

}  // namespace
}  // namespace driftbound::implicit
