#pragma once

#include <cstdint>
#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::soundness {

/// One layer of sums of products as some other program might have computed it: every sum over a binary
/// tree of its own, with or without fused multiply-adds, the bias anywhere in the tree; declared as
/// "order unknown". Computed here with plain loops, by no code of the library's evaluator.
struct ForeignSum {
  Graph graph;
  Trace trace;
  std::string description;
};

/// float32 accumulators (operands float32, tf32, bf16 or fp16; subnormals kept or flushed), and fp16
/// accumulators in all five rounding modes.
ForeignSum random_foreign_sum(std::uint64_t seed);

}  // namespace driftbound::soundness
