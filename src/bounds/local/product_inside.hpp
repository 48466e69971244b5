#pragma once

#include <optional>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/num/ball.hpp"

namespace driftbound::bounds {

/// The one product of matrices that a composite is, but for moves of elements before and after it and numbers added to
/// its result, with its operands and its result as they were recorded.
struct ProductInside {
  Node node;  ///< a Gemm
  Tensor<double> left, right, added, result;
  Tensor<Ball> exact;  ///< the exact results at the recorded operands

  NodeView view() const { return {&node, {&left, &right, &added}, &result}; }
};

/// Returns the product that a Conv, ConvTranspose or Einsum is. Empty for other ops, and where it is none, or more than
/// one. `exact`: the exact results of the op at the recorded operands.
std::optional<ProductInside> product_inside(const NodeView& view, const Setting& setting, const Tensor<Ball>& exact);

}  // namespace driftbound::bounds
