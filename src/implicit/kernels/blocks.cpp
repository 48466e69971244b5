// Loops over blocks.

#include "implicit/kernels/blocks.hpp"

#include "bounds/kernels/element_functions.hpp"
#include "implicit/kernels/block_functions.hpp"

namespace driftbound::implicit {
namespace {

/// Vectors of rows that a tile holds in registers.
constexpr std::size_t tile_vectors = 3;

/// Outputs of a tile that are computed together: there are 32 registers, or 16.
constexpr std::size_t outputs_together = simd::register_bytes == 64 ? 8 : 4;

template <class V>
using RealOf = typename V::Number;

/// V: a vector. The sum of products [first, last) for `outputs` outputs of a tile of `width`, for
/// tile_vectors vectors of rows.
template <class V, std::size_t outputs, std::size_t width>
inline void chain(const RealOf<V>* weights, const RealOf<V>* x, std::size_t first, std::size_t last,
                  V (&sum)[outputs][tile_vectors]) {
  V at[tile_vectors];
#pragma GCC unroll 3
  for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = V::load(x + first * block_rows + v * V::lanes);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < outputs; ++j) {
    const V weight = V(weights[first * width + j]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = weight * at[v];
  }
  for (std::size_t k = first + 1; k < last; ++k) {
    const RealOf<V>* const row = weights + k * width;
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) at[v] = V::load(x + k * block_rows + v * V::lanes);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < outputs; ++j) {
      const V weight = V(row[j]);
#pragma GCC unroll 3
      for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] = simd::multiply_add(weight, at[v], sum[j][v]);
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
      for (std::size_t v = 0; v < tile_vectors; ++v) sum[j][v] += part[j][v];
  }
}

template <class V, std::size_t outputs, std::size_t width>
inline void dense_tile(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                       std::size_t inputs, bool rectified, V* check) {
  constexpr bool is_double = sizeof(RealOf<V>) == sizeof(double);
  const V zero = 0;
  V sum[outputs][tile_vectors];
  chain<V, outputs, width>(weights, x, 0, is_double || inputs < chain_products ? inputs : chain_products, sum);
  if constexpr (!is_double) add_chains<V, outputs, width>(weights, x, inputs, sum);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < outputs; ++j) {
    const V addend = V(bias[j]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < tile_vectors; ++v) {
      V result = sum[j][v] + addend;
      check[v] = simd::multiply_add(zero, result, check[v]);
      if (rectified) result = larger(zero, result);
      result.store(y + j * block_rows + v * V::lanes);
    }
  }
}

template <class V>
inline void dense_group(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                        std::size_t inputs, std::size_t outputs, bool rectified, V* check) {
  std::size_t j = 0;
  for (; j + tile_outputs <= outputs; j += tile_outputs)
    for (std::size_t part = 0; part < tile_outputs; part += outputs_together)
      dense_tile<V, outputs_together, tile_outputs>(weights + j * inputs + part, bias + j + part, x,
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
  const V first = V(x[0]);
#pragma GCC unroll 8
  for (std::size_t tile = 0; tile < tiles; ++tile)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v)
      sum[tile][v] = V::load(weights + tile * tile_outputs * inputs + v * V::lanes) * first;
  for (std::size_t k = 1; k < inputs; ++k) {
    const RealOf<V>* const row = weights + k * width;
    const V at = V(x[k]);
#pragma GCC unroll 8
    for (std::size_t tile = 0; tile < tiles; ++tile)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v)
        sum[tile][v] = simd::multiply_add(V::load(row + tile * tile_outputs * inputs + v * V::lanes), at, sum[tile][v]);
  }
  for (std::size_t tile = 0; tile < tiles; ++tile)
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t j = tile * tile_outputs + v * V::lanes;
      V result = sum[tile][v] + V::load(bias + j);
      *check = simd::multiply_add(result, V(0), *check);
      if (rectified) result = larger(V(0), result);
      result.store(y + j);
    }
}

/// NaN in any lane becomes NaN of the row.
template <class V>
void merge_check(V of_lanes, RealOf<V>* check) {
  for (std::size_t lane = 0; lane < V::lanes; ++lane) *check += of_lanes[lane];
}

template <class V>
void dense_of_point(const RealOf<V>* weights, const RealOf<V>* bias, const RealOf<V>* x, RealOf<V>* y,
                    std::size_t inputs, std::size_t outputs, bool rectified, RealOf<V>* check) {
  constexpr std::size_t most_tiles = V::lanes;  // sums in registers enough to hide their latency
  V of_lanes = V(0);
  std::size_t j = 0;
  for (; j + most_tiles * tile_outputs <= outputs; j += most_tiles * tile_outputs)
    dense_tiles_of_point<V, most_tiles>(weights + j * inputs, bias + j, x, y + j, inputs, tile_outputs, rectified,
                                        &of_lanes);
  for (; j + tile_outputs <= outputs; j += tile_outputs)
    dense_tiles_of_point<V, 1>(weights + j * inputs, bias + j, x, y + j, inputs, tile_outputs, rectified, &of_lanes);
  if (const std::size_t left = outputs - j; left > 0) {
    RealOf<V> last_bias[tile_outputs] = {}, last[tile_outputs];
    for (std::size_t i = 0; i < left; ++i) last_bias[i] = bias[j + i];
    V of_neighbours = V(0);  // lanes beyond the last output
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
      of_rows = simd::multiply_add(result, V(0), of_rows);
      result.store(y + feature * block_rows + row);
    }
    of_rows.store(check + row);
  }
}

template <class V, class F>
inline void each_of_point(RealOf<V>* y, std::size_t features, RealOf<V>* check, const F& f) {
  V of_lanes = V(0);
  simd::in_vectors<V::lanes>(features, [&](std::size_t i, auto count) {
    const V result = f(i, count);
    of_lanes = simd::multiply_add(result, V(0), of_lanes);
    result.store(y + i, count);
  });
  merge_check(of_lanes, check);
}

constexpr auto sum = [](auto a, auto b) { return a + b; };
constexpr auto difference = [](auto a, auto b) { return a - b; };
constexpr auto product = [](auto a, auto b) { return a * b; };
constexpr auto quotient = [](auto a, auto b) { return a / b; };
constexpr auto maximum = [](auto a, auto b) { return larger(a, b); };
constexpr auto minimum = [](auto a, auto b) { return smaller(a, b); };

template <class V, class Operation>
void pair_of_blocks(const RealOf<V>* a, const RealOf<V>* b, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) { return Operation{}(V::load(a + i), V::load(b + i)); });
}
/// b: one number a feature
template <class V, class Operation>
void block_and_constants(const RealOf<V>* a, const RealOf<V>* b, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each<V>(y, features, check, [&](std::size_t f, std::size_t i) { return Operation{}(V::load(a + i), V(b[f])); });
}
/// x with 1 in all lanes but the first `count`.
template <class V>
V with_ones_after(V x, std::size_t count) {
  RealOf<V> numbers[V::lanes];
  x.store(numbers);
  for (std::size_t lane = count; lane < V::lanes; ++lane) numbers[lane] = 1;
  return V::load(numbers);
}
template <class V, class Operation>
void pair_of_points(const RealOf<V>* a, const RealOf<V>* b, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each_of_point<V>(y, features, check, [&](std::size_t i, auto count) {
    V divisor = V::load(b + i, count);
    if (count < V::lanes) divisor = with_ones_after(divisor, count);  // 0 / 0 would be no number
    return Operation{}(V::load(a + i, count), divisor);
  });
}
template <class V>
void join_blocks(const RealOf<V>* x, RealOf<V> alpha, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each<V>(y, features, check, [&](std::size_t, std::size_t i) {
    const V at = V::load(x + i);
    return where(at < 0, V::load(y + i) * alpha, at);
  });
}
template <class V>
void join_of_point(const RealOf<V>* x, RealOf<V> alpha, RealOf<V>* y, std::size_t features, RealOf<V>* check) {
  each_of_point<V>(y, features, check, [&](std::size_t i, auto count) {
    const V at = V::load(x + i, count);
    return where(at < 0, V::load(y + i, count) * alpha, at);
  });
}
template <class V>
void rectify(const RealOf<V>* x, RealOf<V>* y, std::size_t n) {
  simd::in_vectors<V::lanes>(
      n, [&](std::size_t i, auto count) { larger(V(0), V::load(x + i, count)).store(y + i, count); });
}
template <class V>
void negative_part(const RealOf<V>* x, RealOf<V>* y, std::size_t n) {
  simd::in_vectors<V::lanes>(
      n, [&](std::size_t i, auto count) { smaller(V(0), V::load(x + i, count)).store(y + i, count); });
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

/// All but the functions that the two formats do not share.
template <class V>
constexpr BlockKernelsOf<RealOf<V>> block_loops() {
  BlockKernelsOf<RealOf<V>> loops{};
  loops.name = DRIFTBOUND_SIMD_TARGET_NAME;
  loops.fuses = simd::has_fma;
  loops.dense.block = &dense<V>;
  loops.join.block = &join_blocks<V>;
  if constexpr (has_point<V>) {
    loops.dense.point = &dense_of_point<V>;
    loops.join.point = &join_of_point<V>;
  }
  loops.add = of_values<V, decltype(sum)>;
  loops.subtract = of_values<V, decltype(difference)>;
  loops.multiply = of_values<V, decltype(product)>;
  loops.divide = of_values<V, decltype(quotient)>;
  loops.maximum = of_values<V, decltype(maximum)>;
  loops.minimum = of_values<V, decltype(minimum)>;
  loops.shift = of_constants<V, decltype(sum)>;
  loops.scale = of_constants<V, decltype(product)>;
  loops.divide_by = of_constants<V, decltype(quotient)>;
  loops.at_least = of_constants<V, decltype(maximum)>;
  loops.at_most = of_constants<V, decltype(minimum)>;
  loops.rectify = &rectify<V>;
  loops.negative_part = &negative_part<V>;
  loops.tanh = &function_of_all<RealOf<V>, Functions<RealOf<V>>::tanh>;
  loops.sin = &sine<false, RealOf<V>>;
  loops.cos = &sine<true, RealOf<V>>;
  loops.sin_of_multiple = &sine_of_multiple<false, RealOf<V>>;
  loops.cos_of_multiple = &sine_of_multiple<true, RealOf<V>>;
  return loops;
}

constexpr BlockKernels block_kernels() {
  constexpr bool fuses = simd::has_fma;
  BlockKernels kernels = block_loops<simd::Native<double>>();
  kernels.exp = &bounds::function<bounds::Exp<fuses>>;
  kernels.expm1 = &bounds::function<bounds::Expm1<fuses>>;
  kernels.sigmoid = &bounds::function<bounds::Sigmoid<fuses>>;
  kernels.softplus = &bounds::function<bounds::Softplus<fuses>>;
  return kernels;
}

constexpr FloatBlockKernels float_block_kernels() {
  FloatBlockKernels kernels = block_loops<simd::Native<float>>();
  kernels.expm1 = &function_of_all<float, Functions<float>::expm1_below_0>;
  kernels.sigmoid = &function_of_all<float, Functions<float>::sigmoid>;
  kernels.softplus = &function_of_all<float, Functions<float>::softplus>;
  return kernels;
}

}  // namespace

const BlockKernels DRIFTBOUND_SIMD_NAME(blocks) = block_kernels();
const FloatBlockKernels DRIFTBOUND_SIMD_NAME(float_blocks) = float_block_kernels();

}  // namespace driftbound::implicit
