#pragma once

#include "driftbound/num/format.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

/// A rounding of numbers of the accumulator to a narrower format, as far as it is known.
struct NarrowRounding {
  const Format* format = nullptr;
  Rounding rounding = Rounding::nearest_even;
  bool ties_are_open = false;  ///< to nearest, whichever way ties go
  bool may_flush = false;      ///< subnormal operands and results may become 0
};

struct Hull {
  double lower = 0.0, upper = 0.0;
};

/// What a rounding makes of a number that is within a radius of x: |R(t) - centre - slope (t - x)| <= remainder and
/// |R(t) - centre| <= radius.
struct RoundedElement {
  double centre = 0.0;
  double radius = 0.0;
  double slope = 0.0;  ///< 0: whatever moves the number by less than the radius is healed; 1: it is passed on
  double remainder = 0.0;
  bool is_ambiguous = false;  ///< more than one number is possible
};

inline namespace theorems {

/// Smallest and largest number that any |t - x| <= radius may be rounded to; a bound that is not finite: it may
/// overflow.
/// Guarantee: proven; both are attained where nothing is open
/// Source:    docs/theory.md T-76
Hull hull_rounded(double x, double radius, const NarrowRounding& rounding);

/// |R(t) - t| for every |t| <= largest whose rounding is finite; infinite where a directed rounding may stop at the
/// largest number.
/// Source:    docs/theory.md T-01, T-76
Magnitude largest_rounding(double largest, const NarrowRounding& rounding);

/// Guarantee: proven; an infinite radius where the result may not be finite
/// Source:    docs/theory.md T-76
RoundedElement rounded_element(double x, double radius, const Hull& hull, Magnitude largest_rounding);

/// How far what one of several readers of a rounded number takes may be from what another one takes: each for itself may
/// read 0 for one whose rounding was below the smallest normal number. The number is within a radius of x, and of that
/// magnitude at most.
/// Guarantee: proven
/// Source:    docs/theory.md T-76
Magnitude read_otherwise(double x, double radius, Magnitude largest, const Format& format);

/// How far a rounded tensor is from its centre in the 2-norm: by its elements, or by what was handed on and the
/// roundings.
/// Source:    docs/theory.md T-76
Magnitude rounded_norm(Magnitude by_elements, Magnitude propagated, Magnitude roundings);

/// Distance of every run from the shadow in double, of which the run's own shadow is so far off.
/// Source:    docs/theory.md T-76
Magnitude through_rounded_shadow(Magnitude from_rounded_shadow, Magnitude rounded_from_shadow);

}  // namespace theorems

}  // namespace driftbound::bounds
