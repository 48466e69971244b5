#pragma once

#include <optional>
#include <vector>

#include "bounds/kernels/rows.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/node_view.hpp"
#include "bounds/nodes/operand_cache.hpp"

namespace driftbound::bounds {

// Radii of the most common nodes (products of rows with one constant matrix, sums, Relu) by row kernels. These are
// faster than linearise(), propagate() and body_rounding(). Each function returns an empty optional if its assumptions
// do not hold; the caller then uses those.

/// A node of the shadow with the radii of its operands, for one trajectory of T-61.
struct PlainNode {
  NodeView view;             ///< values of the shadow
  std::vector<Radii> radii;  ///< by operand
  Radii norms;               ///< 2-norm bounds of the deviation of the first operand, per row; empty: unknown
  Radii own;                 ///< the shadow's local error
  bool rounds = false;       ///< the trajectory is any run; else the exact network
  bool by_norms = false;     ///< only 2-norms are computed, for the exact network: radii are returned as infinite
  bool in_order = false;     ///< the run adds products in its declared order
};

/// Radii of a node's output by T-62 (1), before they are limited by norms, and sigma of T-61. Empty: all 0.
struct PlainRadii {
  std::vector<double> moved;  ///< radii
  std::vector<double> added;  ///< sigma; only for runs
};

/// Evaluates a product of rows with one constant matrix, plus an optional constant row, in double. Its error bound uses
/// 2-norms of rows and columns (Cauchy and Schwarz) instead of sums of magnitudes. Empty for other nodes, or if a
/// number is not finite.
/// Source:    docs/theory.md T-64, T-80
std::optional<Centre> plain_centre(const NodeView& view, const Shape& shape, const Setting& setting,
                                   OperandCache& operands);

/// Whether all batches use the same right matrix, and the rows of A are contiguous.
bool is_rows_times_matrix(const ProductPlan& plan);
/// Whether an addend is one row of n numbers that is added to every row.
bool adds_one_row(const Tensor<double>& addend, std::size_t n);

/// Whether the row kernels cover an arithmetic: it rounds to nearest, does not flush, has neither a matrix unit nor
/// rounded partial sums, does not round operands of products, and stores results in the accumulator format.
bool is_plain(const Machine& machine);

/// Properties of the operands x, with radii E, of one row of a product.
struct RowOperands {
  /// The number of operands that may be nonzero, and the number of these that are not small (small terms of T-68).
  double nonzero = 0.0, not_small = 0.0;
  std::optional<double> small_norm;  ///< 2-norm of |x| + E of the small operands; empty if they are too few to matter
  double radius = 0.0;               ///< bound of the 2-norm of the deviation from x; infinite: unknown
  bool moves_by_norm = false;        ///< whether `radius` replaces E, as it is at most half the 2-norm of E
};

/// Computes the properties of a row. `radius` is the known bound of the 2-norm of the deviation.
/// Shapes:    `larger`: [k], |x| + E; `radii`: [k], E, or null if E = 0; `small`: work space
/// Source:    docs/theory.md T-68
RowOperands row_operands(const std::vector<double>& larger, const double* radii, double radius, const RowFormat& format,
                         std::vector<double>& small);

/// Returns the constants of the arithmetic that row kernels use, for sums of at most `most_leaves` terms.
RowFormat row_format(const Setting& setting, std::int64_t most_leaves);

/// Computes the radii of a product of rows with one exact constant matrix, plus an optional exact constant row.
/// Source:    docs/theory.md T-22, T-68, T-81
std::optional<PlainRadii> plain_product(const PlainNode& node, const Setting& setting, OperandCache& operands);

/// Computes the radii of a sum or difference of two values of the same shape.
/// Source:    docs/theory.md T-22, T-44
std::optional<PlainRadii> plain_sum(const PlainNode& node, const Setting& setting);

/// The slopes and remainders of linearise(), and the result of propagate() (`moved`), for a Relu.
struct PlainRelu {
  std::vector<double> slopes, remainder, moved;
};
/// Linearises and propagates a Relu. Empty if a number is not finite, or if no operand of the shadow is positive.
/// Source:    docs/theory.md T-41, T-65
std::optional<PlainRelu> plain_relu(const PlainNode& node);

}  // namespace driftbound::bounds
