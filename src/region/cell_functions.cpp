#include "region/cell_functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "implicit/block_kernels.hpp"
#include "implicit/block_steps.hpp"
#include "implicit/float_network.hpp"

namespace driftbound::region {
namespace {

using implicit::BlockKernels;
using implicit::PackedFunction;

const BlockKernels& loops() {
  return implicit::fastest_block_kernels();
}

/// The larger units of the float32 evaluators: the one that follows the graph node by node, and the one by blocks.
FunctionUnits units_of(std::string_view name) {
  FunctionUnits units;
  const auto take = [&](const ArithmeticModel& arithmetic) {
    for (const FunctionAccuracy& accuracy : arithmetic.functions) {
      if (accuracy.function != name) continue;
      units.relative = std::max(units.relative, accuracy.units);
      units.absolute = std::max(units.absolute, accuracy.absolute_units);
    }
  };
  take(cpu_arithmetic("fp32", {}));
  take(implicit::FloatNetwork::arithmetic());
  return units;
}

BentFunction bent(Split split, Bend bend, double largest_second, double steepest, std::string_view name) {
  BentFunction f;
  f.split = split;
  f.bend = bend;
  f.largest = f.widest = infinity;
  f.ends[0] = -infinity;
  f.ends[1] = infinity;
  f.largest_second = largest_second;
  f.steepest = steepest;
  f.units = units_of(name);
  return f;
}

template <class Slope>
void each(const double* value, double* slope, std::size_t n, const Slope& of) {
  for (std::size_t i = 0; i < n; ++i) slope[i] = of(value[i]);
}

CellFunction tanh_function() {
  return {"tanh", bent(Split::at_zero, Bend::below_zero, 0.77, 1.0, "tanh"),
          [](const double* x, double* value, double* slope, std::size_t n) {
            if (!loops().tanh(x, value, n)) return false;
            each(value, slope, n, [](double y) { return (1.0 - y) * (1.0 + y); });
            return true;
          }};
}

CellFunction sigmoid_function() {
  return {"sigmoid", bent(Split::at_zero, Bend::below_zero, 0.0963, 0.25, "sigmoid"),
          [](const double* x, double* value, double* slope, std::size_t n) {
            if (!loops().sigmoid(x, value, n)) return false;
            each(value, slope, n, [](double y) { return y * (1.0 - y); });
            return true;
          }};
}

CellFunction softplus_function() {
  return {"softplus", bent(Split::at_zero, Bend::everywhere, 0.25, 1.0, "softplus"),
          [](const double* x, double* value, double* slope, std::size_t n) {
            return loops().softplus(x, value, n) && loops().sigmoid(x, slope, n);
          }};
}

CellFunction exp_function() {
  BentFunction f = bent(Split::at_middle, Bend::everywhere, infinity, infinity, "exp");
  f.largest = 700.0;
  return {"exp", f, [](const double* x, double* value, double* slope, std::size_t n) {
            if (!loops().exp(x, value, n)) return false;
            std::copy_n(value, n, slope);
            return true;
          }};
}

CellFunction wave_function(bool is_cosine) {
  BentFunction f = bent(is_cosine ? Split::at_shifted_half_turns : Split::at_half_turns, Bend::negative_value, 1.0, 1.0,
                        is_cosine ? "cos" : "sin");
  f.largest = 0x1p20;
  f.widest = 3.14;
  f.ends[0] = -1.0;
  f.ends[1] = 1.0;
  return {is_cosine ? "cos" : "sin", f, [is_cosine](const double* x, double* value, double* slope, std::size_t n) {
            if (!is_cosine) return loops().sin(x, value, n) && loops().cos(x, slope, n);
            if (!loops().cos(x, value, n) || !loops().sin(x, slope, n)) return false;
            each(slope, slope, n, [](double y) { return -y; });
            return true;
          }};
}

constexpr double root_of_two = 0x1.6a09e667f3bcdp+0, root_of_pi = 0x1.c5bf891b4ef6bp+0;

/// e^(-x^2), or e^-69, whichever is larger.
bool bell(const double* x, double* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = -std::min(x[i] * x[i], 69.0);
  return loops().exp(y, y, n);
}

CellFunction erf_function() {
  BentFunction f = bent(Split::at_zero, Bend::below_zero, 0.97, 1.13, "erf");
  return {"erf", f, [](const double* x, double* value, double* slope, std::size_t n) {
            if (!implicit::erf(x, value, n) || !bell(x, slope, n)) return false;
            each(slope, slope, n, [](double y) { return 2.0 / root_of_pi * y; });
            return true;
          }};
}

}  // namespace

CellFunction function_of(PackedFunction f) {
  switch (f) {
    case PackedFunction::tanh:
      return tanh_function();
    case PackedFunction::sigmoid:
      return sigmoid_function();
    case PackedFunction::softplus:
      return softplus_function();
    case PackedFunction::sin:
      return wave_function(false);
    case PackedFunction::cos:
      return wave_function(true);
    case PackedFunction::exp:
      return exp_function();
    case PackedFunction::erf:
      break;
  }
  return erf_function();
}

CellFunction elu_function(double alpha) {
  BentFunction f = bent(Split::at_zero, Bend::everywhere, alpha, std::max(alpha, 1.0), "expm1");
  f.has_kink = alpha != 1.0;
  f.left_slope = alpha;
  // The factor rounds once more.
  f.units = {f.units.relative * (1.0 + 0x1p-20) + (alpha == 1.0 ? 0.0 : 1.0 + 0x1p-20),
             f.units.absolute * alpha * (1.0 + 0x1p-20)};
  return {"elu", f, [alpha](const double* x, double* value, double* slope, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) value[i] = std::min(x[i], 0.0);
            if (!loops().expm1(value, value, n)) return false;
            for (std::size_t i = 0; i < n; ++i) {
              slope[i] = x[i] >= 0.0 ? 1.0 : alpha * (value[i] + 1.0);
              value[i] = x[i] >= 0.0 ? x[i] : alpha * value[i];
            }
            return true;
          }};
}

CellFunction gelu_function() {
  // |f''| = |2 - x^2| phi(x) <= 2 phi(0); f lies between the rectifier less 0.17 and the rectifier; 1.1290 >= |f'|.
  BentFunction f = bent(Split::at_bends, Bend::between_bends, 0.7979, 1.13, "erf");
  f.widest = 2.8;
  // In steps: erf and 1 + erf times |x| / 2, the argument of erf three roundings times |x| |x| phi(x), two of the result.
  f.units = {2.0, 0.0, f.units.relative / 2.0 + 3.0};
  f.is_rectifier = true;
  f.ends[0] = -0.17;
  f.ends[1] = 0.0;
  return {"gelu", f, [](const double* x, double* value, double* slope, std::size_t n) {
            std::vector<double> scaled(n);
            for (std::size_t i = 0; i < n; ++i) scaled[i] = x[i] / root_of_two;
            if (!implicit::erf(scaled.data(), value, n) || !bell(scaled.data(), slope, n)) return false;
            for (std::size_t i = 0; i < n; ++i) {
              const double below = 0.5 * (1.0 + value[i]);
              slope[i] = below + x[i] / (root_of_two * root_of_pi) * slope[i];
              value[i] = x[i] * below;
            }
            return true;
          }};
}

}  // namespace driftbound::region
