#pragma once

#include <cmath>

#include "bounds/theorems/expansions.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {

/// Numbers between which a derivative lies.
struct Enclosure {
  double lower = 0.0;
  double upper = 0.0;
};

/// A smooth function at a point.
struct Tangent {
  Enclosure derivative;
  Magnitude bend;      ///< |f(x + t) - f(x) - f'(x) t|, |t| <= e; what it is for smaller e grows at least as fast as e
  Magnitude steepest;  ///< sup of |f'| within e of x; infinite: unknown
};

/// Where nothing is known.
inline Linear nowhere() {
  return {0.0, Magnitude::infinite(), Magnitude::infinite()};
}

/// |a - b|, rounded up or down.
inline Magnitude distance_up(double a, double b) {
  return Magnitude(a < b ? sub_up(b, a) : sub_up(a, b));
}
inline double distance_down(double a, double b) {
  return a < b ? sub_down(b, a) : sub_down(a, b);
}

/// |value| and its error as an interval of magnitudes.
inline Enclosure magnitude_of(double value, Magnitude error) {
  return {std::fmax(0.0, sub_down(std::abs(value), error.value())), (Magnitude(value) + error).value()};
}

inline Magnitude square(Magnitude x) {
  return x * x;
}

inline namespace theorems {

/// The expansion whose slope is in the middle of the derivative; `moved` bounds |f(x + t) - f(x)|.
/// Source:    docs/theory.md T-65
Linear along(const Point& p, const Tangent& tangent, Magnitude (*moved)(const Point&));

}  // namespace theorems

}  // namespace driftbound::bounds
