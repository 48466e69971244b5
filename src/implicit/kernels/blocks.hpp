#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::implicit {

/// Points that go through a network together, a vector register or more of them side by side: element r of feature f
/// lies at f block_rows + r.
inline constexpr std::size_t block_rows = 48;
/// Outputs of a dense layer that are computed together.
inline constexpr std::size_t tile_outputs = 8;
/// Products of a dense layer in float32 that are added up one after the other.
inline constexpr std::size_t chain_products = 8;

/// Loops in float64 or float32 over blocks, and in float64 over one point, whose elements lie side by side; compiled once
/// per instruction set. Both compute the same bits. `check`, one number a row, stays 0 while every result in that row is
/// finite and is NaN from the first on that is not.
template <class Real>
struct BlockKernelsOf {
  const char* name;

  template <class Loop>
  struct Both {
    Loop block, point;
  };

  /// Whether the products of sums are rounded together with the sums.
  bool fuses = false;
  /// y = W x + b, rectified if asked. A sum is s = fl(w_1 x_1), then s = fl(s + w_k x_k) (the product rounded first,
  /// where the processor has no fused operation), and fl(s + b) at last; in float32 chain_products of them are such a
  /// chain, the last ones may be fewer, and the chains are added to the first one in turn.
  /// Shapes:    `weights` in tiles of tile_outputs outputs, the last one as packed_outputs() says, weights of one input
  ///            side by side, and tile_outputs numbers more that are read; `bias` and y as many outputs as are packed
  using Dense = void (*)(const Real* weights, const Real* bias, const Real* x, Real* y, std::size_t inputs,
                         std::size_t outputs, bool rectified, Real* check);
  Both<Dense> dense;
  /// y = a + b, a - b, a b, a / b, max(a, b), min(a, b)
  using Pair = void (*)(const Real* a, const Real* b, Real* y, std::size_t features, Real* check);
  Both<Pair> add, subtract, multiply, divide, maximum, minimum;
  /// y = a + c, a c, a / c, max(a, c), min(a, c), one c a feature
  Both<Pair> shift, scale, divide_by, at_least, at_most;
  /// y = x for x >= 0, else alpha y
  using Join = void (*)(const Real* x, Real alpha, Real* y, std::size_t features, Real* check);
  Both<Join> join;

  /// y = max(x, 0), y = min(x, 0): n elements
  using Part = void (*)(const Real* x, Real* y, std::size_t n);
  Part rectify, negative_part;

  /// y = f(x) within what T-80 says (tanh, sin, cos, and all in float32: T-113), n elements; false where one x is not
  /// covered: y is not to be used. In float32 expm1 is for x <= 0, and there is no exp.
  using Function = bool (*)(const Real* x, Real* y, std::size_t n);
  Function exp, expm1, tanh, sigmoid, softplus, sin, cos;
  /// y = f(fl(factor x)), as f of that
  using FunctionOfMultiple = bool (*)(const Real* x, Real factor, Real* y, std::size_t n);
  FunctionOfMultiple sin_of_multiple, cos_of_multiple;
};
using BlockKernels = BlockKernelsOf<double>;
using FloatBlockKernels = BlockKernelsOf<float>;

/// Outputs in the tile of the last `left` outputs (1 to tile_outputs): the next power of two.
constexpr std::size_t outputs_of_last_tile(std::size_t left) {
  std::size_t width = 1;
  while (width < left) width *= 2;
  return width;
}
/// Outputs as they are packed, zeros at the end.
constexpr std::size_t packed_outputs(std::size_t outputs) {
  const std::size_t left = outputs % tile_outputs;
  return left == 0 ? outputs : outputs - left + outputs_of_last_tile(left);
}

DRIFTBOUND_SIMD_BUILDS(BlockKernels, blocks);
DRIFTBOUND_SIMD_BUILDS(FloatBlockKernels, float_blocks);

}  // namespace driftbound::implicit
