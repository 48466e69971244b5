#include "reference/pair_functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "num/enclosed.hpp"
#include "num/error_free.hpp"
#include "reference/apply.hpp"
#include "reference/pair_kernels.hpp"

namespace driftbound {

namespace {

using num::DoubleDoubleFunction;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int bits_of_balls = 128;
/// More than the roundings of a few operations take off, and the distance of y from f and of f from its high part.
constexpr double outward = 1.0 + 0x1p-46;

/// e^r is at most this for r <= largest_radius.
double growth(double radius) {
  return 1.0 + 2.0 * radius;
}

double change_of_tanh(double, double y, double radius) {
  return radius * std::min(1.0, (1.0 - y * y) + 2.0 * radius + 0x1p-46);
}
double change_of_sigmoid(double, double y, double radius) {
  return radius * std::min(0.25, y * growth(radius));
}
double change_of_softplus(double, double y, double radius) {
  return radius * std::min(1.0, y * growth(radius));
}
double change_of_exp(double, double y, double radius) {
  return radius * y * growth(radius);
}
double change_of_log(double x, double, double radius) {
  const double gap = x * (1.0 - 0x1p-50) - radius;
  return gap > 0.0 ? radius / gap : infinity;
}
double change_of_sine(double, double, double radius) {
  return radius;
}
double change_of_erf(double, double, double radius) {
  return radius * 1.1284;
}
/// Of slopes of at most 1.13, at x < -1 of max(1, factor) e^-exponent.
double change_in_tail(double radius, double exponent, double factor) {
  const Enclosed decay = enclosed_exp(-std::min(exponent * (1.0 - 0x1p-46), 700.0));
  return radius * std::max(1.0, factor) * (decay.value + decay.error);
}
/// The least and the largest size of an argument.
double least_size(double x, double radius) {
  return std::fabs(x) * (1.0 - 0x1p-50) - radius;
}
double largest_size(double x, double radius) {
  return std::fabs(x) * (1.0 + 0x1p-50) + radius;
}
double change_of_gelu(double x, double, double radius) {
  if (x > -1.5) return radius * 1.13;
  const double least = least_size(x, radius);
  return change_in_tail(0.5 * radius, 0.5 * least * least, 0.8 * largest_size(x, radius));
}
double change_of_gelu_tanh(double x, double, double radius) {
  if (x > -1.5) return radius * 1.13;
  const double least = least_size(x, radius), most = largest_size(x, radius);
  const double exponent = 1.5957 * least * (1.0 + 0.0447 * least * least);
  return change_in_tail(radius, exponent, 3.0 * 1.5958 * most * (1.0 + 0.0448 * most * most));
}

constexpr PairFunction tanh_function = {DoubleDoubleFunction::tanh, change_of_tanh, 1.0};
constexpr PairFunction sigmoid_function = {DoubleDoubleFunction::sigmoid, change_of_sigmoid, 0.25};
constexpr PairFunction softplus_function = {DoubleDoubleFunction::softplus, change_of_softplus, 1.0};
constexpr PairFunction exp_function = {DoubleDoubleFunction::exp, change_of_exp, infinity};
constexpr PairFunction log_function = {DoubleDoubleFunction::log, change_of_log, infinity};
constexpr PairFunction sin_function = {DoubleDoubleFunction::sin, change_of_sine, 1.0};
constexpr PairFunction cos_function = {DoubleDoubleFunction::cos, change_of_sine, 1.0};
constexpr PairFunction erf_function = {DoubleDoubleFunction::erf, change_of_erf, 1.1284};
constexpr PairFunction gelu_function = {DoubleDoubleFunction::gelu, change_of_gelu, 1.13};
constexpr PairFunction gelu_tanh_function = {DoubleDoubleFunction::gelu_tanh, change_of_gelu_tanh, 1.13};

struct FunctionOf {
  const PairFunction* operator()(const op::Tanh&) const { return &tanh_function; }
  const PairFunction* operator()(const op::Sigmoid&) const { return &sigmoid_function; }
  const PairFunction* operator()(const op::Softplus&) const { return &softplus_function; }
  const PairFunction* operator()(const op::Exp&) const { return &exp_function; }
  const PairFunction* operator()(const op::Log&) const { return &log_function; }
  const PairFunction* operator()(const op::Sin&) const { return &sin_function; }
  const PairFunction* operator()(const op::Cos&) const { return &cos_function; }
  const PairFunction* operator()(const op::Erf&) const { return &erf_function; }
  const PairFunction* operator()(const op::Gelu& gelu) const {
    return gelu.tanh_form ? &gelu_tanh_function : &gelu_function;
  }
  const PairFunction* operator()(const auto&) const { return nullptr; }
};

/// Chosen elements by balls of any precision.
void evaluate_by_balls(const Op& op, const PairTensor& x, const std::vector<std::size_t>& chosen, PairTensor& y) {
  if (chosen.empty()) return;
  PairTensor some({static_cast<std::int64_t>(chosen.size())}, 1);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    some.hi[i] = x.hi[chosen[i]];
    some.lo[i] = x.lo[chosen[i]];
    some.radius[i] = x.radius[chosen[i]];
  }
  const BallTensor operand = some.balls(bits_of_balls);
  const BallTensor* const operands[] = {&operand};
  const PairTensor result(apply(op, operands, some.shape, bits_of_balls), 1);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    y.hi[chosen[i]] = result.hi[i];
    y.lo[chosen[i]] = result.lo[i];
    y.radius[chosen[i]] = result.radius[i];
  }
}

}  // namespace

const PairFunction* pair_function(const Op& op) {
  return std::visit(FunctionOf{}, op);
}

void evaluate(const PairFunction& function, const Op& op, const PairTensor& x, PairTensor& y) {
  num::evaluate(function.function, x.hi, x.lo, y.hi, y.lo);
  const num::DoubleDoubleError error = num::error_of(function.function);
  const std::size_t size = y.part_size();
  const bool same_parts = x.parts() == y.parts();
  std::vector<double> roundings(size);
  std::vector<std::size_t> others;
  for (std::size_t part = 0; part < y.parts(); ++part) {
    const std::size_t first = part * size;
    others.clear();
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t at = first + i;
      const num::ErrorFree value = num::two_sum(y.hi[at], y.lo[at]);
      const bool nothing = x.hi[at] == 0.0 && value.value == 0.0;
      const double radius = x.radius[at], rounding = nothing ? 0.0 : num::error_bound(error, x.hi[at], y.hi[at]);
      if (!(radius <= largest_radius && rounding < infinity)) {
        others.push_back(at);
        continue;
      }
      // What is left of f where y is 0 and f is not is far below every radius that is not 0.
      const double change = radius == 0.0 ? 0.0 : function.change(x.hi[at], std::fabs(value.value), radius) + 0x1p-800;
      y.hi[at] = value.value;
      y.lo[at] = value.error;
      roundings[i] = rounding;
      y.radius[at] = (change + rounding) * outward;
    }
    double norm = infinity;
    if (others.empty() && same_parts && function.lipschitz < infinity)
      norm = add_up(mul_up(function.lipschitz, x.norms[part]), fastest_pair_kernels().norm(roundings.data(), size));
    evaluate_by_balls(op, x, others, y);
    y.settle(part, norm);
  }
}

}  // namespace driftbound
