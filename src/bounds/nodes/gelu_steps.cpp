#include "bounds/nodes/gelu_steps.hpp"

#include <cmath>

#include "bounds/nodes/accuracy.hpp"
#include "bounds/theorems/functions.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

const Magnitude one(1.0), half(0.5);

/// Returns an upper bound of |log(1 + x)| for |x| <= e.
Magnitude logarithm(Magnitude e) {
  return divide_up(e, sub_down(1.0, e.value()));
}

/// Returns the error bound of a function (T-16) for |f| <= `size`.
Magnitude allowed(const char* function, Magnitude size, const Setting& setting, std::set<std::string>& conditions) {
  return theorems::allowed_error(size, error_of(function, setting, conditions), setting.machine);
}

/// Returns a bound of |log(computed / exact)| for a square root that is about `size` or larger.
Magnitude of_root(double size, const Setting& setting, std::set<std::string>& conditions) {
  const Magnitude error = allowed("sqrt", Magnitude(size), setting, conditions);
  return logarithm(divide_up(error, size * (1.0 - 0x1p-40)));
}

/// Returns a bound of |log(r / sqrt 2)|, where r is the number of the format nearest to sqrt 2.
Magnitude of_nearest_root_of_two(const Machine& machine) {
  constexpr double root = 0x1.6a09e667f3bcdp+0;  // sqrt 2 with an error of at most 2^-53
  const double nearest = std::nearbyint(root / (2.0 * machine.u)) * (2.0 * machine.u);
  return logarithm(divide_up(Magnitude(std::abs(nearest - root)) + Magnitude(0x1p-52), 1.4142));
}

/// The constants C and V of T-124: error bounds of the share (erf or tanh) that are caused by errors of constants (C)
/// and by roundings (V) in its argument.
struct Moves {
  Magnitude by_constants, by_roundings;
};

std::optional<Moves> of_erf(Magnitude rounding, const Setting& setting, std::set<std::string>& conditions) {
  const Magnitude steepest(0.48395);
  const bool is_nearest = is_correctly_rounded(setting.arithmetic->accuracy("sqrt"));
  const Magnitude root = is_nearest ? of_nearest_root_of_two(setting.machine) : of_root(1.4142, setting, conditions);
  return Moves{steepest * root, steepest * rounding};
}

/// Empty if the error of the root is above 2^-12, which the proof of T-124 does not cover.
std::optional<Moves> of_tanh(Magnitude rounding, const Setting& setting, std::set<std::string>& conditions) {
  constexpr double quarter_of_pi = 0.785398;  // a lower bound of pi/4
  const Magnitude steepest(0.44775), of_cube(0.0306), of_all(0.9536);
  const Magnitude atan = allowed("atan", Magnitude(0.7854), setting, conditions);
  const Magnitude pi = logarithm(divide_up(atan, quarter_of_pi));
  const Magnitude root = half * (pi + rounding) + of_root(0.7, setting, conditions);
  if (!(root.value() <= 0x1p-12)) return std::nullopt;
  return Moves{of_cube * rounding + steepest * root, of_all * rounding};
}

}  // namespace

bool GeluSteps::stay_finite(Magnitude farthest, double largest) const {
  const Magnitude size = cubes ? Magnitude(4.0) * farthest * farthest * farthest : Magnitude();
  return (size + Magnitude(4.0) * farthest).value() <= largest;
}

std::optional<GeluSteps> gelu_steps(const op::Gelu& gelu, const Setting& setting, std::set<std::string>& conditions) {
  constexpr double holds_coefficient = 0x1p-16, coarse = 0x1p-6, most = 1e6;
  const Machine& machine = setting.machine;
  const bool holds_constants = machine.u <= holds_coefficient && machine.accumulator->largest >= most;
  if (!(machine.u <= coarse) || (gelu.tanh_form && !holds_constants)) return std::nullopt;
  const Magnitude u(machine.u), eta(machine.eta), up = one + u, rounding = logarithm(u);
  const std::optional<Moves> moves = (gelu.tanh_form ? of_tanh : of_erf)(rounding, setting, conditions);
  if (!moves) return std::nullopt;
  const char* function = gelu.tanh_form ? "tanh" : "erf";
  const Magnitude share = allowed(function, one, setting, conditions) + Magnitude(3.0) * eta;
  const Magnitude fixed = moves->by_constants + share;
  GeluSteps steps;
  steps.cubes = gelu.tanh_form;
  steps.units = Magnitude(2.0) + u;
  steps.each = half * up * up * (moves->by_roundings + fixed);
  steps.each_by_no_chance = half * up * up * (fixed + Magnitude(2.0) * rounding * rounding);
  steps.least = (up * up * (Magnitude(2.0) + share) + one) * eta;
  return steps;
}

}  // namespace driftbound::bounds
