#include "bounds/nodes/function_rules.hpp"

#include <stdexcept>
#include <string>

namespace driftbound::bounds {
namespace {

// A function of one element without an overload here does not compile.

FunctionRules rules(const op::Neg&) {
  return {propagate_identity, nullptr};
}
FunctionRules rules(const op::Cast&) {
  return {propagate_identity, nullptr};
}
FunctionRules rules(const op::Relu&) {
  return {propagate_relu, linear_relu, 0.0, &ElementKernels::relu, 0.0};
}
FunctionRules rules(const op::LeakyRelu& f) {
  return {propagate_leaky_relu, linear_leaky_relu, f.alpha};
}
FunctionRules rules(const op::Elu& f) {
  return {propagate_elu, linear_elu, f.alpha};
}
FunctionRules rules(const op::Tanh&) {
  return {propagate_tanh, linear_tanh, 0.0, &ElementKernels::tanh, 6.0, false, &smooth_tanh};
}
FunctionRules rules(const op::Sigmoid&) {
  return {propagate_sigmoid, linear_sigmoid, 0.0, &ElementKernels::sigmoid, 4.0};
}
FunctionRules rules(const op::Softplus&) {
  return {propagate_softplus, linear_softplus, 0.0, &ElementKernels::softplus, 9.0, false, &smooth_softplus};
}
FunctionRules rules(const op::Sin&) {
  return {propagate_sin_or_cos, linear_sin, 0.0, &ElementKernels::sin, 2.5, true, &smooth_sin};
}
FunctionRules rules(const op::Cos&) {
  return {propagate_sin_or_cos, linear_cos, 0.0, &ElementKernels::cos, 2.5, true};
}
FunctionRules rules(const op::Exp&) {
  return {propagate_exp, linear_exp};
}
FunctionRules rules(const op::Erf&) {
  return {propagate_erf, linear_erf, 0.0, nullptr, 0.0, false, &smooth_erf};
}
FunctionRules rules(const op::Sqrt&) {
  return {propagate_sqrt, linear_sqrt};
}
FunctionRules rules(const op::Abs&) {
  return {propagate_abs, linear_abs};
}
FunctionRules rules(const op::Reciprocal&) {
  return {propagate_reciprocal, linear_reciprocal};
}
FunctionRules rules(const op::Log&) {
  return {propagate_log, linear_log};
}
FunctionRules rules(const op::Tan&) {
  return {propagate_tan, linear_tan};
}
FunctionRules rules(const op::Atan&) {
  return {propagate_atan, linear_atan};
}
FunctionRules rules(const op::Sinh&) {
  return {propagate_sinh, linear_sinh};
}
FunctionRules rules(const op::Cosh&) {
  return {propagate_cosh, linear_cosh};
}
FunctionRules rules(const op::Floor&) {
  return {propagate_floor, linear_floor};
}
FunctionRules rules(const op::Ceil&) {
  return {propagate_ceil, linear_ceil};
}
FunctionRules rules(const op::Round&) {
  return {propagate_round, linear_round};
}
FunctionRules rules(const op::Sign&) {
  return {propagate_sign, linear_sign};
}
FunctionRules rules(const op::Pow& f) {
  return {propagate_power, linear_power, f.exponent};
}
FunctionRules rules(const op::Clip&) {
  return {propagate_identity, nullptr};
}
FunctionRules rules(const op::ThresholdedRelu& f) {
  return {propagate_thresholded_relu, linear_thresholded_relu, f.alpha};
}

}  // namespace

FunctionRules function_rules(const Op& op) {
  return std::visit(
      []<class F>(const F& f) -> FunctionRules {
        if constexpr (ElementwiseUnary<F>)
          return rules(f);
        else
          throw std::logic_error("bounds: " + std::string(name_of(f)) + " is no function of one element");
      },
      op);
}

}  // namespace driftbound::bounds
