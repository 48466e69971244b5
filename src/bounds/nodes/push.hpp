#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

// Forward mode: Jacobian-vector products of single nodes in double, with bounds of their rounding errors.

/// The Jacobian-vector products of a node for several directions, one after the other, and the numbers that bound their
/// rounding errors.
struct Pushed {
  std::vector<double> values;  ///< the products, computed in double
  std::int64_t roundings = 0;  ///< largest number of roundings between a direction of an operand and a result
  std::int64_t products = 0;   ///< number of products in the computation of an element that may underflow
  double factor = 1.0;         ///< upper bound of the factor by which such products are multiplied afterwards
};

/// Whether J_e or |J_e| (elementwise) is multiplied by the directions.
enum class Jacobian { as_stored, magnitudes };

/// Computes the Jacobian-vector products sum_e J_e t_e of a node (one step of forward mode). J_e is the stored Jacobian
/// at the centre for operand e: it consists of slopes, constants, values of operands of products, or values of a
/// softmax.
/// Shapes:    `slopes`: as in Linearised; `directions`: one entry t_e per operand, [count * operand size], empty: 0;
///            result [count * output size]
/// Throws:    InvalidArgument for a composite
/// Source:    docs/theory.md T-117
Pushed pushed(const NodeView& view, const std::vector<std::vector<double>>& slopes,
              std::span<const std::span<const double>> directions, std::size_t count, Jacobian jacobian,
              const Setting& setting);

/// Returns, per element, a bound of the rounding errors of all `count` directions together: D(S, n, P count), plus
/// f D(0, 0, P count) if f > 1. `magnitudes` is the result of pushed() with |J| for the sums over the directions of the
/// magnitudes (or for the 2-norms over the directions); S, n, P and f are its values, roundings, products and factor.
/// Guarantee: rounded up
/// Source:    docs/theory.md T-64, T-117
std::vector<double> lost_of(const Pushed& magnitudes, std::size_t count);

}  // namespace driftbound::bounds
