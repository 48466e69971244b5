#include "region/cell_functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "bounds/kernels/element_kernels.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "implicit/block_kernels.hpp"
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
  f.least = -infinity;
  f.largest = f.widest = infinity;
  f.ends[0] = -infinity;
  f.ends[1] = infinity;
  f.largest_second = largest_second;
  f.steepest = steepest;
  f.straight = 64.0;
  f.units = units_of(name);
  return f;
}

template <class Slope>
void each(const double* value, double* slope, std::size_t n, const Slope& of) {
  for (std::size_t i = 0; i < n; ++i) slope[i] = of(value[i]);
}

/// How far the loops reach. Beyond, functions other than waves are their limits within 2^-500 (T-151).
constexpr double most_of_tanh = 350.0, most_of_exponential = 700.0, most_of_waves = 0x1p20;

/// Arguments for loops, which take those up to a limit that are 0 or not below 2^-500 in magnitude.
std::vector<double> limited(const double* x, std::size_t n, double most) {
  std::vector<double> at(n);
  for (std::size_t i = 0; i < n; ++i) at[i] = std::fabs(x[i]) < 0x1p-500 ? 0.0 : std::min(std::max(x[i], -most), most);
  return at;
}

CellFunction tanh_function() {
  return {"tanh", bent(Split::at_zero, Bend::below_zero, 0.77, 1.0, "tanh"),
          [](const double* x, double* value, double* slope, std::size_t n) {
            if (!loops().tanh(limited(x, n, most_of_tanh).data(), value, n)) return false;
            each(value, slope, n, [](double y) { return (1.0 - y) * (1.0 + y); });
            return true;
          }};
}

CellFunction sigmoid_function() {
  return {"sigmoid", bent(Split::at_zero, Bend::below_zero, 0.0963, 0.25, "sigmoid"),
          [](const double* x, double* value, double* slope, std::size_t n) {
            if (!loops().sigmoid(limited(x, n, most_of_exponential).data(), value, n)) return false;
            each(value, slope, n, [](double y) { return y * (1.0 - y); });
            return true;
          }};
}

CellFunction softplus_function() {
  return {"softplus", bent(Split::at_zero, Bend::everywhere, 0.25, 1.0, "softplus"),
          [](const double* x, double* value, double* slope, std::size_t n) {
            const std::vector<double> at = limited(x, n, most_of_exponential);
            if (!loops().softplus(at.data(), value, n) || !loops().sigmoid(at.data(), slope, n)) return false;
            for (std::size_t i = 0; i < n; ++i) value[i] = std::max(value[i], x[i]);
            return true;
          }};
}

CellFunction exp_function() {
  BentFunction f = bent(Split::at_middle, Bend::everywhere, infinity, infinity, "exp");
  f.largest = most_of_exponential;
  f.straight = infinity;
  return {"exp", f, [](const double* x, double* value, double* slope, std::size_t n) {
            if (!loops().exp(limited(x, n, most_of_exponential).data(), value, n)) return false;
            std::copy_n(value, n, slope);
            return true;
          }};
}

CellFunction wave_function(bool is_cosine) {
  BentFunction f = bent(is_cosine ? Split::at_shifted_half_turns : Split::at_half_turns, Bend::negative_value, 1.0, 1.0,
                        is_cosine ? "cos" : "sin");
  f.largest = most_of_waves;
  f.least = -f.largest;
  f.widest = 3.14;
  f.straight = infinity;
  f.ends[0] = -1.0;
  f.ends[1] = 1.0;
  return {is_cosine ? "cos" : "sin", f, [is_cosine](const double* x, double* value, double* slope, std::size_t n) {
            const std::vector<double> at = limited(x, n, most_of_waves);
            if (!is_cosine) return loops().sin(at.data(), value, n) && loops().cos(at.data(), slope, n);
            if (!loops().cos(at.data(), value, n) || !loops().sin(at.data(), slope, n)) return false;
            each(slope, slope, n, [](double y) { return -y; });
            return true;
          }};
}

/// Source:    docs/theory.md T-88, T-124
auto bends(bounds::ElementKernels::Bends bounds::ElementKernels::*of) {
  return [of](const double* x, double* value, double* slope, std::size_t n) {
    std::vector<double> curvature(n);
    return (bounds::fastest_element_kernels().*of)(x, value, slope, curvature.data(), n);
  };
}

CellFunction erf_function() {
  return {"erf", bent(Split::at_zero, Bend::below_zero, 0.97, 1.13, "erf"), bends(&bounds::ElementKernels::erf)};
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
            if (!loops().expm1(limited(value, n, most_of_exponential).data(), value, n)) return false;
            for (std::size_t i = 0; i < n; ++i) {
              slope[i] = x[i] >= 0.0 ? 1.0 : alpha * (value[i] + 1.0);
              value[i] = x[i] >= 0.0 ? x[i] : alpha * value[i];
            }
            return true;
          }};
}

CellFunction gelu_function(bool tanh_form) {
  BentFunction f = bent(Split::at_bends, Bend::between_bends, 0.8, 1.13, tanh_form ? "tanh" : "erf");
  f.widest = 2.8;
  f.is_rectifier = true;
  f.ends[1] = 0.0;
  if (tanh_form) {
    f.bend_point = 0x1.6b23142700629p+0;
    f.ends[0] = -0.175;
    // In steps: T-124, as long as no cube overflows.
    const FunctionUnits atan = units_of("atan"), root = units_of("sqrt");
    const double of_pi = (atan.relative + atan.absolute) / 0.785, of_root = root.relative + root.absolute / 0.7;
    const double of_factor = 0.5 * (of_pi + 1.0) + of_root;
    const double of_share = 0.9536 + 0.0306 + 0.44775 * of_factor + f.units.relative + f.units.absolute;
    f.units = {2.0, 0.0, 0.5 * of_share};
    f.largest_run = 0x1p41;
    return {"gelu_tanh", f, bends(&bounds::ElementKernels::gelu_tanh)};
  }
  f.bend_point = 0x1.6a09e667f3bcdp+0;
  f.ends[0] = -0.17;
  // In steps: erf and 1 + erf times |x| / 2, the argument of erf three roundings times |x| |x| phi(x), two of the result.
  f.units = {2.0, 0.0, f.units.relative / 2.0 + 3.0};
  return {"gelu", f, bends(&bounds::ElementKernels::gelu)};
}

}  // namespace driftbound::region
