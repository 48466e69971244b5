#pragma once

#include <cstddef>

namespace driftbound::implicit {

/// Points that go through a network together, a vector register or more of them side by side: element r of feature f
/// lies at f block_rows + r.
inline constexpr std::size_t block_rows = 48;
/// Outputs of a dense layer that are computed together.
inline constexpr std::size_t tile_outputs = 8;

/// Loops over blocks in float64, compiled once per instruction set. `check`, one number a row, stays 0 while every
/// result in that row is finite and is NaN from the first on that is not.
struct BlockKernels {
  const char* name;

  /// y = W x + b, rectified if asked. A sum is s = fl(w_1 x_1), then s = fl(s + w_k x_k) (the product rounded first,
  /// where the processor has no fused operation), and fl(s + b) at last.
  /// Shapes:    `weights` in tiles of tile_outputs outputs, the last one as packed_outputs() says, weights of one input
  ///            side by side; `bias` and y as many outputs as are packed
  void (*dense)(const double* weights, const double* bias, const double* x, double* y, std::size_t inputs,
                std::size_t outputs, bool rectified, double* check);
  /// y = a + b
  void (*add)(const double* a, const double* b, double* y, std::size_t features, double* check);
  void (*subtract)(const double* a, const double* b, double* y, std::size_t features, double* check);
  void (*multiply)(const double* a, const double* b, double* y, std::size_t features, double* check);
  /// y = a + c, y = c a, one c a feature
  void (*shift)(const double* a, const double* c, double* y, std::size_t features, double* check);
  void (*scale)(const double* a, const double* c, double* y, std::size_t features, double* check);
  /// y = max(x, 0)
  void (*rectify)(const double* x, double* y, std::size_t features);
  /// y = min(x, 0)
  void (*negative_part)(const double* x, double* y, std::size_t features);
  /// y = x for x >= 0, else alpha y
  void (*join)(const double* x, double alpha, double* y, std::size_t features, double* check);

  /// y = f(x) within what T-80 says; false where one x is not covered: y is not to be used.
  /// Shapes:    n elements, a multiple of block_rows
  using Function = bool (*)(const double* x, double* y, std::size_t n);
  Function exp, expm1, tanh, sigmoid, softplus, sin, cos;
};

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

extern const BlockKernels blocks_baseline;
extern const BlockKernels blocks_avx2;    // x86-64 builds only
extern const BlockKernels blocks_avx512;  // x86-64 builds only

}  // namespace driftbound::implicit
