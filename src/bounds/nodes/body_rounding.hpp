#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// What the caller of a product's roundings has computed already, and the roundings need as well.
struct ProductSizes {
  Radii total;   ///< sum_k |a_ik b_kj| of the centres
  Radii spread;  ///< |A| E_B + E_A |B| + E_A E_B: what the operands' radii add to that
};

/// A node whose values in the run are not recorded. Its operands in the run are numbers of the accumulator.
struct UnrecordedNode {
  NodeView view;                     ///< centres in place of recorded values
  std::vector<Radii> operand_radii;  ///< distances of the run's operands from their centres
  Radii moved;                       ///< distance of f(the run's operands) from the centre of the output
  bool any_order = true;             ///< of sums; else the declared order
  std::optional<ProductSizes> sizes = std::nullopt;  ///< of a Gemm or MatMul that reads its operands as they are
  bool operands_are_read = false;                    ///< factors of a product are numbers of the input format already
};

/// What the node's own roundings add in any run of the arithmetic, whatever its operands are within their radii. Every
/// op but composites.
/// Shapes:    one entry per output element
/// Guarantee: as the theorems T-10 to T-18, T-21, T-68 and T-69 are (docs/assumptions.md); infinite where a result may
/// overflow
/// Throws:    InvalidArgument for a composite; Unsupported for a Cast to what is no format, or a function of unknown
///            accuracy
/// Source:    docs/theory.md T-22, T-68, T-69
std::vector<double> body_rounding(const UnrecordedNode& node, const Setting& setting,
                                  std::set<std::string>& conditions);

}  // namespace driftbound::bounds
