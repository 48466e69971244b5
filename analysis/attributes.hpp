#pragma once

#include <string>
#include <vector>

#include "driftbound/model/ops.hpp"

namespace driftbound::analysis {

/// Values in nested brackets, an axis a level; the shape alone where there are more than a line holds.
std::string nested_text(const std::vector<std::string>& values, const Shape& shape);

/// The attributes that decide what an op computes: "axis 1, kernel [2, 2]"; those that say nothing are left out.
std::string attributes_of(const Op& op);

}  // namespace driftbound::analysis
