#pragma once

#include <cmath>

#include "bounds/theorems/expansions.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {

// First-order expansion of a smooth function from an enclosure of its derivative (T-65).

/// An enclosure of a number.
struct Enclosure {
  double lower = 0.0;
  double upper = 0.0;
};

/// A smooth function near a point x, within the radius e.
struct Tangent {
  Enclosure derivative;
  Magnitude bend;      ///< bound of |f(x + t) - f(x) - f'(x) t| for |t| <= e; bend / e does not decrease with e
  Magnitude steepest;  ///< bound of |f'| within e of x; infinite if unknown
};

/// The expansion with infinite remainder and Lipschitz constant.
inline Linear nowhere() {
  return {0.0, Magnitude::infinite(), Magnitude::infinite()};
}

/// |a - b|, rounded up and rounded down.
inline Magnitude distance_up(double a, double b) {
  return Magnitude(a < b ? sub_up(b, a) : sub_up(a, b));
}
inline double distance_down(double a, double b) {
  return a < b ? sub_down(b, a) : sub_down(a, b);
}

/// Encloses |t| for |t - value| <= error.
inline Enclosure magnitude_of(double value, Magnitude error) {
  return {std::fmax(0.0, sub_down(std::abs(value), error.value())), (Magnitude(value) + error).value()};
}

inline Magnitude square(Magnitude x) {
  return x * x;
}

inline namespace theorems {

/// The expansion whose slope is the midpoint of the derivative's enclosure; `moved` bounds |f(x + t) - f(x)|.
/// Source:    docs/theory.md T-65
Linear along(const Point& p, const Tangent& tangent, Magnitude (*moved)(const Point&));

}  // namespace theorems

}  // namespace driftbound::bounds
