#include "num/double_double.hpp"

#include <string>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::num {
namespace {

/// In units of 2^-106; tests/num/test_double_double_bounds.cpp finds these numbers again.
struct Units {
  double relative, of_argument, in_tail = 0;
};

constexpr Units units[double_double_functions] = {
    {10, 0},     // exp
    {29, 0},     // expm1
    {33, 0},     // log
    {39, 0},     // log1p
    {37, 0},     // tanh
    {22, 0},     // sigmoid
    {51, 0},     // softplus
    {19, 0},     // sin
    {23, 0},     // cos
    {36, 0},     // erf
    {0, 27, 6501},  // gelu
    {0, 35, 19943},  // gelu_tanh
    {5, 0},      // sqrt
    {8, 0},      // reciprocal
};

}  // namespace

std::vector<const DoubleDoubleKernels*> usable_double_double_kernels() {
  return simd::usable<double_double_builds>();
}

const DoubleDoubleKernels& fastest_double_double_kernels() {
  return simd::fastest<double_double_builds>();
}

DoubleDoubleError error_of(DoubleDoubleFunction f) {
  const Units& found = units[static_cast<std::size_t>(f)];
  using F = DoubleDoubleFunction;
  const bool has_zeros = f == F::sin || f == F::cos, has_tail = f == F::gelu || f == F::gelu_tanh;
  const bool vanishes = f == F::exp || f == F::sigmoid || f == F::softplus;
  return {found.relative * 0x1p-106, found.of_argument * 0x1p-106, found.in_tail * 0x1p-106, has_zeros ? 0x1p-133 : 0.0,
          vanishes   ? 0x1p-894
          : has_tail ? 0x1p-889
                     : 0.0};
}

void evaluate(DoubleDoubleFunction f, std::span<const double> x_high, std::span<const double> x_low,
              std::span<double> y_high, std::span<double> y_low, const DoubleDoubleKernels& kernels) {
  const std::size_t count = x_high.size();
  if (x_low.size() != count || y_high.size() != count || y_low.size() != count) {
    throw InvalidArgument("a double-double function of " + std::to_string(count) +
                          " numbers: all four arrays must be that long");
  }
  require_sound_environment();
  kernels.loops[static_cast<std::size_t>(f)](x_high.data(), x_low.data(), count, y_high.data(), y_low.data());
}

}  // namespace driftbound::num
