#pragma once

#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "driftbound/trace/product_kernel.hpp"

namespace driftbound::bounds {

/// Returns a text that names the first property of a run of the graph that the arithmetic does not determine, and the
/// node. If it is empty, all runs of the arithmetic that compute the products which have a kernel by it store the same
/// numbers, and the CPU evaluator computes them.
/// Source:    docs/theory.md T-97, T-171
std::string undetermined_by(const Graph& graph, const ArithmeticModel& arithmetic, const KernelsByNode& kernels = {});

/// Whether an op is a composite whose body multiplies matrices.
bool has_products(const Op& op);

/// What the CPU evaluator executes beside kernels: the arithmetic without what it says of products, in an order that it can
/// execute. The arithmetic itself where there are no kernels.
ArithmeticModel executed_by_kernels(ArithmeticModel arithmetic, const KernelsByNode& kernels);

}  // namespace driftbound::bounds
