#include "bounds/theorems/functions.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/theorems/roundings.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// A constant of an op as the accumulator holds it.
double constant_as_used(double alpha, const Machine& machine) {
  return round_to(alpha, *machine.accumulator, machine.rounding);
}

/// Upper bound of |e^x - 1| for x < 0.
Magnitude less_one(double x) {
  return Magnitude(std::min(std::abs(x), 1.0));
}

/// The bound of T-18, where `inner` bounds the error of e^x - 1.
Magnitude elu_error_with(Magnitude inner, double x, double y, double alpha, const Machine& machine) {
  if (x >= 0.0) return storing_error(y, machine);
  const double used = constant_as_used(alpha, machine);
  const Magnitude constant = constant_error(alpha, machine) * less_one(x);
  const bool is_exact = used == 0.0 || std::abs(used) == 1.0;
  return Magnitude(used) * inner + constant + (is_exact ? storing_error(y, machine) : rounding_error(y, machine));
}

}  // namespace

Magnitude allowed_error(Magnitude largest, FunctionError accuracy, const Machine& machine) {
  const Magnitude flushed = machine.flushes ? Magnitude(machine.accumulator->smallest_normal) : Magnitude();
  const Magnitude absolute = Magnitude(accuracy.absolute_units) * Magnitude(machine.u);
  return Magnitude(accuracy.units) * inner_rounding(largest, machine) + absolute + flushed;
}

Magnitude function_error(double y, FunctionError accuracy, const Machine& machine) {
  const Magnitude stored = storing_error(y, machine), before_storing = Magnitude(y) + stored;
  if (!std::isfinite(cast_error(before_storing.value(), *machine.accumulator, machine).value()))
    return Magnitude::infinite();  // y may be a saturated result
  const double shrunk = sub_down(1.0, mul_up(accuracy.units, machine.u));
  return divide_up(allowed_error(Magnitude(y) + stored, accuracy, machine), shrunk) + stored;
}

Magnitude foreign_sigmoid_error(double x, double y, FunctionError accuracy, const Machine& machine) {
  const Magnitude accurate = function_error(y, accuracy, machine);
  const double omega = machine.accumulator->smallest_normal;
  const double sigmoid = exp_up(x);
  if (sigmoid > omega) return accurate;
  return std::max(accurate, Magnitude(sigmoid) + Magnitude(2.0 * omega) + storing_error(y, machine));
}

Magnitude leaky_relu_error(double x, double y, double alpha, const Machine& machine) {
  if (x >= 0.0) return storing_error(y, machine);
  const double used = constant_as_used(alpha, machine);
  const Magnitude constant = constant_error(alpha, machine) * Magnitude(x);
  const bool is_exact = used == 0.0 || std::abs(used) == 1.0;
  return constant + (is_exact ? storing_error(y, machine) : rounding_error(y, machine));
}

Magnitude elu_error(double x, double y, double alpha, FunctionError accuracy, const Machine& machine) {
  return elu_error_with(allowed_error(less_one(x), accuracy, machine), x, y, alpha, machine);
}

Magnitude exp_less_one_error(Magnitude largest, FunctionError accuracy, const Machine& machine) {
  const Magnitude exp = allowed_error(Magnitude(1.0), accuracy, machine);
  return exp + unrecorded_cast(largest + exp, *machine.accumulator, machine);
}

Magnitude foreign_elu_error(double x, double y, double alpha, FunctionError expm1, FunctionError exp,
                            const Machine& machine) {
  const Magnitude accurate = elu_error(x, y, alpha, expm1, machine);
  return std::max(accurate, elu_error_with(exp_less_one_error(less_one(x), exp, machine), x, y, alpha, machine));
}

bool exp_is_covered(double x, const Machine& machine) {
  return exp_up(x) < machine.accumulator->largest;
}

bool power_is_covered(double x, double exponent, const Machine& machine) {
  const Magnitude size(x);
  const Magnitude base = exponent < 0.0 ? divide_up(Magnitude(1.0), size.value()) : size;
  return base.value() <= 1.0 || power_up(base.value(), std::abs(exponent)) < machine.accumulator->largest;
}

}  // namespace driftbound::bounds::inline theorems
