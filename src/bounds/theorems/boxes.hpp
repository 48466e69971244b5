#pragma once

#include "bounds/theorems/slope_ranges.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// What bounds for all points of a box do with ranges, slopes and errors. Guarantee: proven, rounded up.
// Source: docs/theory.md T-77

/// How far either trajectory is from the centre.
Magnitude box_reach(Magnitude range, Magnitude error);

/// max |s - slope| E over the slopes s.
Magnitude left_over(const Interval& slopes, double slope, Magnitude error);

/// |alpha| times a product of ranges and errors.
Magnitude crossed(double alpha, double product);

/// Whether a stays the larger one with both off by their reach.
bool stays_larger(double a, Magnitude a_reach, double b, Magnitude b_reach);

/// r_i (E_i + (p + r).E) + p_i r.E for p_i within r_i; apart = E_i + (p + r).E, mean_of_ranges = r.E.
Magnitude softmax_left_over(Magnitude p, Magnitude range, Magnitude apart, Magnitude mean_of_ranges);

/// What shares of sources move, and an element's own source. Source: docs/theory.md T-117
Magnitude by_sources(Magnitude shares, Magnitude own);

}  // namespace theorems

}  // namespace driftbound::bounds
