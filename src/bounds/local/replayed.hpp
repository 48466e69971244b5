#pragma once

#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::bounds::inline theorems {

/// Executes the trace's arithmetic, and kernels of products (empty: none), at the trace's inputs with the CPU evaluator and
/// returns the output of every node. If the arithmetic determines every rounding, with the kernels where there are some,
/// every run stores these numbers.
/// Shapes:    as recorded
/// Throws:    Unsupported if the CPU evaluator cannot execute the arithmetic
/// Source:    docs/theory.md T-97, T-171
std::vector<Tensor<double>> replayed(const Graph& graph, const Trace& trace, const KernelsByNode& kernels, int threads);

}  // namespace driftbound::bounds::inline theorems
