#pragma once

#include <cstdint>
#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/trace.hpp"
#include "soundness/random_values.hpp"

namespace driftbound::soundness {

/// A random network, data for it and a way to evaluate it. Its name says how to make it again.
struct Case {
  Graph graph;
  Inputs inputs;
  std::int64_t samples = 0;
  ArithmeticModel arithmetic;
  std::int64_t batch = 0;
  int threads = 1;
};

/// Data of a family for a graph, and a random way to evaluate it.
Case case_of(Random& random, Family family, Graph graph);

/// A graph of 1 to 40 ops (dense layers, residuals, products of activations, constant sub-expressions, casts, mixed
/// element types), batched or not.
Case random_case(Family family, std::uint64_t seed);

ArithmeticModel random_arithmetic(Random& random);

Trace evaluate(const Case& the_case);

/// The graph's name, the arithmetic and every node with its shapes: what one needs to see and replay it.
std::string describe(const Case& the_case);

}  // namespace driftbound::soundness
