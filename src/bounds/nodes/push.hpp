#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// Directions, several for a value: tensors of its shape, one after the other.
struct Pushed {
  std::vector<double> values;  ///< as computed in double
  std::int64_t roundings = 0;  ///< that an element meets on its way from the operands' directions, at most
  std::int64_t products = 0;   ///< behind an element, that may underflow
  double factor = 1.0;         ///< that such products are multiplied by afterwards: at most, in magnitude
};

/// What is multiplied by the directions: the Jacobian, or its magnitudes.
enum class Jacobian { as_stored, magnitudes };

/// One step of forward mode at a node: sum_e J_e t_e, J the Jacobian at the centre as it is stored (slopes, constants,
/// the values of operands of products, the values of a softmax).
/// Shapes:    slopes as in Linearised; directions one entry an operand, [count * operand size], empty: 0; result
///            [count * output size]
/// Throws:    InvalidArgument for a composite
/// Source:    docs/theory.md T-78
Pushed pushed(const NodeView& view, const std::vector<std::vector<double>>& slopes,
              std::span<const std::span<const double>> directions, std::size_t count, Jacobian jacobian,
              const Setting& setting);

/// What rounding loses, at most, of so many directions all together, an element: D(S, n, P count) and, where the factor
/// is f > 1, f D(0, 0, P count); S what their sums of magnitudes (over directions; or their 2-norms) are pushed to.
/// Guarantee: rounded up
/// Source:    docs/theory.md T-64, T-117
std::vector<double> lost_of(const Pushed& magnitudes, std::size_t count);

}  // namespace driftbound::bounds
