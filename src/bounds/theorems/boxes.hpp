#pragma once

#include "bounds/theorems/slope_ranges.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// Arithmetic of error bounds that hold for all points of a box of inputs. Guarantee: proven, rounded up.
// Source: docs/theory.md T-77

/// Bound of the distance of both trajectories from the centre: R = B + E.
Magnitude box_reach(Magnitude range, Magnitude error);

/// The remainder max |s - slope| E over the slopes s.
Magnitude left_over(const Interval& slopes, double slope, Magnitude error);

/// |alpha| product; `product` is one of ranges and errors.
Magnitude crossed(double alpha, double product);

/// Whether s >= t for all |s - a| <= a_reach and |t - b| <= b_reach.
bool stays_larger(double a, Magnitude a_reach, double b, Magnitude b_reach);

/// The remainder r_i (E_i + (p + r).E) + p_i r.E of a softmax whose p_i varies by at most r_i = range.
/// apart = E_i + (p + r).E, mean_of_ranges = r.E.
Magnitude softmax_left_over(Magnitude p, Magnitude range, Magnitude apart, Magnitude mean_of_ranges);

/// Radius of an element: the sum of its shares of all sources, plus its own source. Source: docs/theory.md T-117
Magnitude by_sources(Magnitude shares, Magnitude own);

}  // namespace theorems

}  // namespace driftbound::bounds
