#pragma once

#include <vector>

#include "driftbound/evaluate/probe.hpp"
#include "evaluate/probe/caller.hpp"
#include "evaluate/probe/tree_index.hpp"

namespace driftbound::probe {

/// What the arithmetic of the sums is asked with: elements that are computed along one tree, and how the operand is read
/// that they hold; of elements across, the powers of two of products of both operands.
struct ProbedClass {
  Lanes lanes;
  ProbedReading reading;
  ProbedResult result;
};

/// The smallest power of two that results hold.
int lowest_power_of(const ProbedResult& result);

/// By node: whether its sum loses its twelfth bit where the next node takes the first one away. Empty: none does, or operands
/// do not show it.
std::vector<bool> find_rounded_parts(Caller& caller, const ProbedClass& probed, const TreeIndex& index);
/// How a sum of these is rounded.
SumRounding find_parts(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                       const std::vector<bool>& rounded);
/// How nodes with two summands round, those that keep more bits than others if there are any; empty where there are none.
/// Where a tree has steps too, a node that adds a single product is one of these.
std::optional<SumRounding> find_additions(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                                          const std::vector<bool>& rounded);
/// Which products are rounded to so many bits before they are added; empty: none is, or operands do not show it.
std::vector<bool> find_rounded_products(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                                        int precision);
/// How nodes with more summands compute; empty where there are none.
std::optional<StepArithmetic> find_steps(Caller& caller, const ProbedClass& probed, const TreeIndex& index);
/// Whether subnormal results of float32 are kept; empty where operands have no products as small.
std::optional<bool> find_subnormal_results(Caller& caller, const ProbedClass& probed);
/// Which products are added without being rounded first; empty where products are exact, or there is no addition.
/// Throws:    Unsupported where the answers contradict each other
std::vector<bool> find_fused(Caller& caller, const ProbedClass& probed, const TreeIndex& index);

/// Whether a node is a step of a matrix unit in a tree that has such.
bool is_step(const TreeIndex& index, std::int64_t node, bool tree_has_steps);

}  // namespace driftbound::probe
