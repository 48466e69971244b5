#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// How precise the reference must be, and how far it may climb.
struct PrecisionPolicy {
  int initial_bits = 0;     ///< 0: chosen from the depth of the graph
  int max_bits = 4096;
  double error_ratio = 0x1p-30;     ///< radius <= error_ratio * |computed - mid| …
  double relative_radius = 0x1p-60; ///< … or <= relative_radius * |mid| where there is no error (or no trace)
  int threads = 1;
};

/// Certified values of one evaluation: the exact value of every element lies in its ball.
struct Reference {
  std::vector<Tensor<Ball>> layers;     ///< per node, row-major over the node's shape
  std::map<int, std::int64_t> rungs;    ///< elements whose radius met the policy, by precision in bits
  std::int64_t undecided = 0;           ///< elements whose radius did not at max_bits
  int max_bits_used = 0;
};

/// Accumulated reference of one evaluation: the exact network on the original inputs. `computed`, if
/// given, is what the precision is measured against (the trace of the same evaluation).
/// Guarantee: the exact value of every node's every element lies in its ball (docs/theory.md T-30)
/// Throws:    UnsoundEnvironment, ShapeMismatch, Unsupported (division by a ball that holds 0 gives an
///            infinite radius, not an error)
Reference certified_reference(const Graph& graph, const Inputs& inputs, const PrecisionPolicy& policy = {},
                              const Trace* computed = nullptr);

/// Local reference: every node's exact function on the inputs that the run recorded for it.
Reference local_reference(const Graph& graph, const Trace& trace, const PrecisionPolicy& policy = {});

}  // namespace driftbound
