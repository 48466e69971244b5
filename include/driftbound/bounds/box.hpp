#pragma once

#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// A product of intervals that inputs of one sample lie in: every element of every input, row-major, inputs in the order
/// of the graph.
struct Box {
  std::vector<double> lower, upper;
};

/// What holds at every point of a box.
struct BoxBound {
  /// Of |computed - exact| of the target, for every run of the arithmetic at every point, rounding the point to the
  /// type of the model's input included; infinite: not certifiable for this box.
  Magnitude error = Magnitude::infinite();
  Interval range = Interval::whole();  ///< holds the exact target at every point
  double remainder_share = 0.0;        ///< of an adjoint's bound: what slopes over the box cost; 1 where it has none
  Guarantee guarantee = Guarantee::proven;
  std::string condition;  ///< what a conditional bound stands on
};

/// One bound for every point of a box: the network at the middle gives the slopes, enclosures over the box what they
/// leave over. Sums in the declared order where it is known, else in any.
/// Guarantee: proven for the arithmetics of this library's CPU evaluators in a declared order but for what
///            BoxBound::condition says; conditional on it otherwise
/// Tightness: for small boxes that of `adjoint/any-order` at a point; grows with the box, to infinity
/// Throws:    InvalidArgument for a box with another number of elements than a sample, with bounds that are not finite
///            or reversed, or a target that the graph does not have; ShapeMismatch for inputs whose shape is open but
///            for the first axis; Unsupported as bound()
/// Source:    docs/theory.md T-77
BoxBound forward_error_bound(const Graph& graph, const ArithmeticModel& arithmetic, const Box& box,
                             const Target& target = {}, const BoundOptions& options = {});

}  // namespace driftbound
