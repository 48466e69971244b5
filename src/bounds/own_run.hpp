#pragma once

#include "driftbound/trace/trace.hpp"

namespace driftbound::bounds {

/// Whether a trace is one of this library's CPU evaluators: it names them, and its arithmetic is, field by field,
/// one that they execute, in a declared order. What any other trace says of its arithmetic is a condition.
bool is_own_run(const Trace& trace);

}  // namespace driftbound::bounds
