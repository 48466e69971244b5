#include <algorithm>
#include <cmath>

#include "bounds/theorems/expansions.hpp"
#include "bounds/theorems/tangent.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

LinearPair nowhere_near() {
  return {0.0, 0.0, Magnitude::infinite()};
}

bool are_finite(double a, double b) {
  return std::isfinite(a) && std::isfinite(b);
}

/// A number of an enclosure, and the largest distance of the other numbers from it.
struct Chosen {
  double value;
  Magnitude error;
};
Chosen middle_of(const Enclosure& e) {
  const double value = 0.5 * e.lower + 0.5 * e.upper;
  return {value, std::max(distance_up(e.upper, value), distance_up(value, e.lower))};
}

/// max(0, ea + eb - |a - b|), the remainder of a maximum or minimum of two.
Magnitude overtaking(double a, Magnitude ea, double b, Magnitude eb) {
  return subtract_up(ea + eb, distance_down(a, b));
}

}  // namespace

LinearPair linear_product(double a, Magnitude ea, double b, Magnitude eb) {
  if (!are_finite(a, b)) return nowhere_near();
  return {b, a, ea * eb};
}

LinearPair linear_quotient(double a, Magnitude ea, double b, Magnitude eb) {
  const double size = std::abs(b), nearest = sub_down(size, eb.value());
  if (!are_finite(a, b) || b == 0.0) return nowhere_near();
  const Enclosure quotient{div_down(std::abs(a), size), div_up(std::abs(a), size)};
  const Chosen by_a = middle_of({div_down(1.0, b), div_up(1.0, b)});
  const Chosen by_b = middle_of({div_down(quotient.lower, size), div_up(quotient.upper, size)});
  if (!are_finite(by_a.value, by_b.value)) return nowhere_near();
  const Magnitude moved = ea + Magnitude(quotient.upper) * eb;
  const Magnitude bend = nearest > 0.0 ? divide_up(divide_up(moved * eb, size), nearest) : Magnitude::infinite();
  const double slope_b = std::signbit(a) ? by_b.value : -by_b.value;
  return {by_a.value, slope_b, bend + by_a.error * ea + by_b.error * eb};
}

LinearPair linear_max(double a, Magnitude ea, double b, Magnitude eb) {
  if (!are_finite(a, b)) return nowhere_near();
  const double first = a >= b ? 1.0 : 0.0;
  return {first, 1.0 - first, overtaking(a, ea, b, eb)};
}

LinearPair linear_min(double a, Magnitude ea, double b, Magnitude eb) {
  if (!are_finite(a, b)) return nowhere_near();
  const double first = a <= b ? 1.0 : 0.0;
  return {first, 1.0 - first, overtaking(a, ea, b, eb)};
}

LinearPair linear_prelu(double x, Magnitude ex, double slope, Magnitude eb) {
  if (!are_finite(x, slope)) return nowhere_near();
  const Magnitude turn = distance_up(slope, 1.0), beyond = subtract_up(ex, std::abs(x));
  if (x > 0.0) return {1.0, 0.0, (turn + eb) * beyond};
  const Magnitude below = ex * eb;
  if (beyond == Magnitude()) return {slope, x, below};
  return {slope, x, std::max(below, turn * beyond + Magnitude(x) * eb)};
}

}  // namespace driftbound::bounds::inline theorems
