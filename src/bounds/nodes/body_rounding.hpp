#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

// Local rounding errors of a node in runs that are not recorded: sup of rho of T-61 over all operands within radii.

/// Sums of magnitudes of a matrix product A B that the caller has already computed.
struct ProductSizes {
  Radii total;   ///< sum_k |a_ik b_kj| of the centres
  Radii spread;  ///< |A| E_B + E_A |B| + E_A E_B: the increase of `total` by the operands' radii E_A and E_B; empty: 0
};

/// A node of a run that is not recorded. The run's operands are numbers of the accumulator format within radii of known
/// centres.
struct UnrecordedNode {
  NodeView view;                                     ///< the centres take the place of recorded values
  std::vector<Radii> operand_radii;                  ///< bounds of |operand in the run - centre|
  Radii moved;                                       ///< bound of |f(operands in the run) - centre of the output|
  bool any_order = true;                             ///< sums in any order; else in the declared order
  std::optional<ProductSizes> sizes = std::nullopt;  ///< for a Gemm or MatMul that does not round its operands
  bool operands_are_read = false;                    ///< the factors of a product are numbers of the input format
  bool sums_are_exact = false;                       ///< sums of any length are rounded once, when they are complete
  bool sums_squares = false;  ///< a ReduceSum of a moment adds up squares: a variance is no mean of its terms
};

/// Returns bounds of the local rounding error of a node in any run of the arithmetic, for all operands within their
/// radii. It covers all ops except composites.
/// Shapes:    one entry per output element
/// Guarantee: that of T-10 to T-18, T-21, T-68, T-69, T-136 and T-187 (docs/assumptions.md); infinite where a result may overflow
/// Throws:    InvalidArgument for a composite; Unsupported for a Cast to a type that is not a floating-point format, or
///            for a function without a declared accuracy
/// Source:    docs/theory.md T-22, T-68, T-69, T-136, T-187
std::vector<double> body_rounding(const UnrecordedNode& node, const Setting& setting,
                                  std::set<std::string>& conditions);

}  // namespace driftbound::bounds
