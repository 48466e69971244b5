#pragma once

#include <set>
#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::bounds {

/// Whether a trace is one of this library's CPU evaluators: it names them, and its arithmetic is, field by field,
/// one that they execute, in a declared order. What any other trace says of its arithmetic is a condition.
bool is_own_run(const Trace& trace);

/// Whether the CPU evaluators execute it, field by field, in a declared order.
bool is_own_arithmetic(const ArithmeticModel& arithmetic);

/// What a bound stands on for a run whose arithmetic is not ours.
std::string arithmetic_condition(const ArithmeticModel& arithmetic);

/// What a bound of sums by a matrix unit stands on.
/// Source:    docs/assumptions.md A-03
std::string matrix_unit_condition(const TensorCore& unit);

/// Conditions as one sentence.
std::string joined(const std::set<std::string>& conditions);

/// What bounds for every run of a graph stand on, whoever made it: how composites and scaled sums are computed.
/// Source:    docs/assumptions.md
std::set<std::string> any_run_conditions(const Graph& graph);

}  // namespace driftbound::bounds
