#pragma once

#include <optional>
#include <vector>

#include "bounds/kernels/rows.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/node_view.hpp"
#include "bounds/nodes/operand_cache.hpp"

namespace driftbound::bounds {

/// A node whose operands are finite and lie within finite radii, next to the shadow's own error at it.
struct PlainNode {
  NodeView view;
  std::vector<Radii> radii;
  Radii norms;  ///< of what every row of the first operand moves by; empty: unknown
  Radii own;
  bool rounds = false;    ///< a run: else the exact network …
  bool by_norms = false;  ///< … of which norms say enough: radii are infinite before those
  bool in_order = false;  ///< whether that run adds products up in its declared order
};

/// Radii before norms, and sigma of T-61. Empty: all 0.
struct PlainRadii {
  std::vector<double> moved;
  std::vector<double> added;
};

/// A product of rows with one constant matrix, and perhaps a constant addend, in double: by norms of rows and columns,
/// without a sum of magnitudes.
/// Source:    docs/theory.md T-64, T-80
std::optional<Centre> plain_centre(const NodeView& view, const Shape& shape, const Setting& setting,
                                   OperandCache& operands);

/// Whether B is one matrix under rows of A that lie one after the other.
bool is_rows_times_matrix(const ProductPlan& plan);
/// Whether an addend is one row of n numbers for all.
bool adds_one_row(const Tensor<double>& addend, std::size_t n);

/// Whether runs round to nearest, flush nothing and store what they compute: what the loops below know of arithmetic.
bool is_plain(const Machine& machine);

/// What is known of the operands of one row of a product.
struct RowOperands {
  double nonzero = 0.0, not_small = 0.0;  ///< how many may be other than 0, and than small
  std::optional<double> small_norm;       ///< of those that are, where they are worth setting apart
  double radius = 0.0;                    ///< 2-norm of what they move by
  bool moves_by_norm = false;             ///< whether that takes the place of radii that say less
};

/// Shapes:    larger [k], magnitudes with their radii; radii [k], null where nothing moves; `small`: memory
/// Source:    docs/theory.md T-68
RowOperands row_operands(const std::vector<double>& larger, const double* radii, double radius, const RowFormat& format,
                         std::vector<double>& small);

/// The arithmetic as loops over rows take it, for sums of up to so many terms.
RowFormat row_format(const Setting& setting, std::int64_t most_leaves);

/// A product of rows with one constant matrix, which all runs read as it is, and perhaps a constant addend.
/// Source:    docs/theory.md T-22, T-68, T-81
std::optional<PlainRadii> plain_product(const PlainNode& node, const Setting& setting, OperandCache& operands);

/// A sum or difference of two values of one shape.
/// Source:    docs/theory.md T-22, T-44
std::optional<PlainRadii> plain_sum(const PlainNode& node, const Setting& setting);

/// What linearise() and propagate() give for a Relu that is active somewhere.
struct PlainRelu {
  std::vector<double> slopes, remainder, moved;
};
/// Source:    docs/theory.md T-41, T-65
std::optional<PlainRelu> plain_relu(const PlainNode& node);

}  // namespace driftbound::bounds
