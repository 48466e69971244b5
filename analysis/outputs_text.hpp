#pragma once

#include <string>

#include "analysis/comparison.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {

/// The part of the text report about outputs and scalars: for each the measured error, a line per bound by the
/// question that it answers, and the largest parts of the error and of the bound.
std::string outputs_text(const Comparison& comparison, const Painter& paint);

}  // namespace driftbound::analysis
