#pragma once

#include "bounds/adjoint/slope_range.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

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

/// The part of Rules (rules.hpp) that bounds over boxes rest on.
struct BoxRules {
  decltype(&bounds::slope_range) slope_range = bounds::slope_range;
  decltype(&bounds::slope_ranges) slope_ranges = bounds::slope_ranges;
  decltype(&bounds::box_reach) reach = bounds::box_reach;
  decltype(&bounds::left_over) left_over = bounds::left_over;
  decltype(&bounds::crossed) crossed = bounds::crossed;
  decltype(&bounds::stays_larger) stays_larger = bounds::stays_larger;
  decltype(&bounds::softmax_left_over) softmax_left_over = bounds::softmax_left_over;
  decltype(&bounds::by_sources) by_sources = bounds::by_sources;
};

}  // namespace driftbound::bounds
