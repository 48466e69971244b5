#pragma once

#include <set>
#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::bounds {

// Whether a run is by this library's own evaluators, and the conditions under which bounds hold for other runs.

/// Whether a trace was recorded by a CPU evaluator of this library: its provenance says so, and is_own_arithmetic()
/// holds. For any other trace, the declared arithmetic is a condition of the bounds.
bool is_own_run(const Trace& trace);

/// Whether the arithmetic equals, in every field, one that the CPU evaluators execute, in a declared order.
bool is_own_arithmetic(const ArithmeticModel& arithmetic);

/// Returns the condition of a bound for a run of another program: its arithmetic is as declared.
std::string arithmetic_condition(const ArithmeticModel& arithmetic);

/// The condition of bounds for every run that take kernels found in one.
/// Source:    docs/theory.md T-170
inline constexpr const char* found_in_every_run_condition =
    "every run computes the products whose kernel was found in the recorded bits by the same kernels (T-170)";

/// Returns the condition of a bound of sums that a matrix unit computes.
/// Source:    docs/assumptions.md A-03
std::string matrix_unit_condition(const TensorCore& unit);

/// Returns the conditions, separated by semicolons.
std::string joined(const std::set<std::string>& conditions);

/// Which steps a composite is computed by, "steps" or "the first steps", and those inside a segment; empty for other
/// ops.
std::set<std::string> steps_conditions(const Op& op, const std::string& steps);

/// Returns the conditions of bounds for every run of a graph by any program: how composites and scaled sums are
/// computed.
/// Source:    docs/assumptions.md
std::set<std::string> any_run_conditions(const Graph& graph);

}  // namespace driftbound::bounds
