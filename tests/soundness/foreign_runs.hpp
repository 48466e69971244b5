#pragma once

#include <cstdint>
#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/trace.hpp"
#include "soundness/foreign_products.hpp"

namespace driftbound::soundness {

/// How somebody else's program runs a network.
struct ForeignRun {
  ForeignProduct product;
  std::int64_t batch = 0;  ///< samples multiplied together; 0: all
  std::uint64_t seed = 0;  ///< of the orders of everything that is no plain matrix product
};

/// No layer yet; "order unknown".
Trace trace_in_unknown_order(const Graph& graph, const Inputs& inputs, ArithmeticModel arithmetic,
                             const std::string& program);

/// The network run node by node: float32 products of activations with constants by the foreign program, everything
/// else by the CPU evaluator in orders drawn at random. The trace says "order unknown".
/// Domain:    batched models whose layers all depend on an input; `arithmetic` with float32 accumulators, subnormals
/// kept, or
///            flushed by products
/// Throws:    Unsupported for a layer that depends on no input; NotAvailable where flushing is not
Trace foreign_run(const Graph& graph, const Inputs& inputs, ArithmeticModel arithmetic, const ForeignRun& run);

}  // namespace driftbound::soundness
