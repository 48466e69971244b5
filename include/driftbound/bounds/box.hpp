#pragma once

#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

// Error bounds and enclosures of a network that hold for all inputs in a box.

/// A box of inputs of one sample: one interval for every element of every input. Elements are in row-major order,
/// inputs in the order of the graph.
struct Box {
  std::vector<double> lower, upper;
};

/// Bounds that hold at every point of a box.
struct BoxBound {
  /// Upper bound of |computed - exact| of the target, for every run of the arithmetic at every point of the box. The
  /// error of rounding the point to the type of the model's input is included. Infinite: not certifiable for this box.
  Magnitude error = Magnitude::infinite();
  Interval range = Interval::whole();  ///< contains the exact target at every point of the box
  double remainder_share = 0.0;  ///< share of the remainders in the adjoint's bound; 1 if only radii bound `error`
  Guarantee guarantee = Guarantee::proven;
  std::string condition;  ///< the assumptions of a conditional bound; empty if proven
};

/// Computes one bound for all points of a box. The adjoint uses the midpoints of the slope intervals over the box; the
/// second-order remainders account for the widths of these intervals. Sums are taken in the declared order if it is
/// known, else in any order.
/// Guarantee: proven if BoxBound::condition is empty, which is possible for the arithmetics of this library's CPU
///            evaluators; else conditional on it
/// Tightness: for small boxes that of `adjoint/any-order` at a point; the bound grows with the box, eventually to
///            infinity
/// Throws:    InvalidArgument for a box whose number of elements differs from that of a sample, a box with bounds that
///            are not finite or reversed, or a target that the graph does not have; ShapeMismatch for an input that has
///            no declared shape, or one whose axes other than the first are not fixed; Unsupported as bound()
/// Source:    docs/theory.md T-77
BoxBound forward_error_bound(const Graph& graph, const ArithmeticModel& arithmetic, const Box& box,
                             const Target& target = {}, const BoundOptions& options = {});

}  // namespace driftbound
