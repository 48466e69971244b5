#pragma once

#include <cstdint>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::soundness {

/// Which way a target is to err, and how long to look for operands whose rounding may fall either way.
struct ChosenError {
  Target target;
  double direction = 1.0;     ///< 1 or -1
  std::int64_t attempts = 0;  ///< of a local search that starts again from what it has found, changed a little
  std::uint64_t seed = 1;     ///< of these changes
};

/// Runs by float32 sums, an order for every sum of every sample chosen so that the target errs far (sum_erring(), in
/// the direction of the adjoint); where operands are rounded to a narrow format, sums next to a boundary between two of
/// its numbers are taken across it where that helps. Products are rounded, addends come last, functions are the CPU
/// evaluator's. One of the runs that every bound of every run speaks of: the trace says "order unknown".
/// Domain:    networks that PlainNetwork knows; `arithmetic` of the CPU evaluator with accumulators and results in fp32
/// Throws:    InvalidArgument for another network or arithmetic
Trace run_in_chosen_orders(const Graph& graph, const Inputs& inputs, ArithmeticModel arithmetic,
                           const ChosenError& error);

}  // namespace driftbound::soundness
