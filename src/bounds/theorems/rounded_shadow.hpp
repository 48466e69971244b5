#pragma once

#include "driftbound/num/format.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

// Roundings to narrow formats as nodes of the rounded shadow (T-76).

/// A rounding of numbers of the accumulator to a narrower format, as far as it is determined.
struct NarrowRounding {
  const Format* format = nullptr;
  Rounding rounding = Rounding::nearest_even;
  bool ties_are_open = false;  ///< the tie rule is undetermined
  bool may_flush = false;      ///< subnormal operands and results may become 0
};

/// An interval of real numbers.
struct Hull {
  double lower = 0.0, upper = 0.0;
};

/// The expansion of a rounding R near x: |R(t) - centre - slope (t - x)| <= remainder and |R(t) - centre| <= radius for
/// all t within the radius of x.
struct RoundedElement {
  double centre = 0.0;
  double radius = 0.0;
  double slope = 0.0;  ///< 0: errors of the operand are removed by the rounding; 1: they are propagated
  double remainder = 0.0;
  bool is_ambiguous = false;  ///< whether R(t) may be more than one number
};

inline namespace theorems {

/// The smallest and the largest number to which any t with |t - x| <= radius may be rounded. A bound is infinite if the
/// rounding may overflow.
/// Guarantee: proven; both are attained if ties and flushing are determined
/// Source:    docs/theory.md T-76
Hull hull_rounded(double x, double radius, const NarrowRounding& rounding);

/// Upper bound of |R(t) - t| for every |t| <= largest whose rounding is finite; infinite if a directed rounding may
/// saturate at the largest number of the format.
/// Source:    docs/theory.md T-01, T-76
Magnitude largest_rounding(double largest, const NarrowRounding& rounding);

/// The expansion of the rounding of numbers within `radius` of x, with slope 0 or 1, whichever has the smaller
/// remainder. `hull` is that of hull_rounded(), `largest_rounding` that of the numbers within the radius.
/// Guarantee: proven; the radius is infinite if the result may not be finite
/// Source:    docs/theory.md T-76
RoundedElement rounded_element(double x, double radius, const Hull& hull, Magnitude largest_rounding);

/// Upper bound of the difference between the numbers that two readers of one rounded number use, if each may read 0 in
/// place of a number below omega, the smallest normal one: min(largest, omega); 0 if the number is certainly above
/// omega. The number lies within `radius` of x and is at most `largest` in magnitude.
/// Guarantee: proven
/// Source:    docs/theory.md T-76
Magnitude read_otherwise(double x, double radius, Magnitude largest, const Format& format);

/// Bound of the 2-norm distance of a rounded tensor from its centre: the smaller of the norm of its radii and of the
/// norm of its operand plus that of the roundings.
/// Source:    docs/theory.md T-76
Magnitude rounded_norm(Magnitude by_elements, Magnitude propagated, Magnitude roundings);

/// Bound of the distance of every run from the shadow: its distance from the rounded shadow, plus the distance of the
/// rounded shadow from the shadow.
/// Source:    docs/theory.md T-76
Magnitude through_rounded_shadow(Magnitude from_rounded_shadow, Magnitude rounded_from_shadow);

}  // namespace theorems

}  // namespace driftbound::bounds
