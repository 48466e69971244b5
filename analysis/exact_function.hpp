#pragma once

#include <string_view>

#include "driftbound/model/ops.hpp"

namespace driftbound::analysis {

/// The formula over the reals of an op that computes, with attributes by name; empty for one whose name says it, one
/// that moves elements, and a composite, which has a body.
std::string_view exact_function_of(const Op& op);

}  // namespace driftbound::analysis
