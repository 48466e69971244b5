#pragma once

#include <string>

#include "analysis/comparison.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {

/// The part of the text report about outputs and scalars: for each the measured error, a line per bound by the
/// question that it answers, and the largest parts of the error and of the bound.
std::string outputs_text(const Comparison& comparison, const Painter& paint);

/// Of every output with samples in which not every run has the sign of the exact number: how many; a line each.
std::string doubtful_signs(const Comparison& comparison);

/// Why no output has a bound over the box that was given; empty where one has, or there is no box.
std::string box_text(const Comparison& comparison);

}  // namespace driftbound::analysis
