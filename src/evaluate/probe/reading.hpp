#pragma once

#include <array>
#include <optional>

#include "driftbound/evaluate/probe.hpp"
#include "evaluate/probe/caller.hpp"

namespace driftbound::probe {

/// In which format results come. `results`: of random data.
ProbedResult find_result(Caller& caller, const Lanes& lanes, const std::vector<float>& results);

/// How the numbers are read that these lanes hold: those of the left operand along rows, else of the right one.
/// Throws:    Unsupported where not even powers of two are read as they are
ProbedReading read_operand(Caller& caller, const Lanes& lanes, const ProbedResult& result);

/// The rounding that makes of 1 + 3/2 units, 1 + 1/2 unit and their negatives 1 (-1) and so many units; empty: none.
std::optional<Rounding> rounding_with(const std::array<double, 4>& units);

}  // namespace driftbound::probe
