#pragma once

#include <string>

#include "driftbound/model/load.hpp"

namespace driftbound::analysis {

/// What a model file holds: inputs and outputs, one line per layer with op, output shape and parameters,
/// totals, and every node this version does not support, all at once.
std::string describe(const ModelDescription& description, const std::string& file);

}  // namespace driftbound::analysis
