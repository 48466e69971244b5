#pragma once

#include <optional>
#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "bounds/nodes/node_view.hpp"
#include "bounds/sums/term_patterns.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {

// Local bounds and propagation of matrix products (Gemm, MatMul) with recorded operands.

/// The product y = alpha sum_k a_ik b_kj + beta c that a Gemm or MatMul computes.
struct Product {
  ProductPlan plan;
  double alpha = 1.0;
  double beta = 1.0;
  bool has_addend = false;           ///< whether there is an addend c (input 2)
  bool operands_are_bounds = false;  ///< the operands are upper bounds of unrecorded magnitudes, which may be smaller
};

/// Returns the product that a node computes; empty for other ops.
std::optional<Product> product_of(const NodeView& view);

/// Returns how often a product uses its most used matrix. `offsets`: of the matrix of every batch.
std::size_t most_uses(const std::vector<std::int64_t>& offsets);

/// Local bounds of a product, one entry per output element.
struct ProductBounds {
  std::vector<double> any_order;
  std::vector<double> partial_sums;   ///< any order, by T-68; empty if T-68 does not apply
  std::vector<double> running;        ///< the declared order, by T-69; empty if T-69 does not apply or is not requested
  std::vector<double> order_aware;    ///< the declared order; empty for an unknown order or a matrix unit
  std::vector<double> probabilistic;  ///< any order, T-74; infinite if `patterns` is not none; empty if not requested
  std::vector<TermPattern> patterns;  ///< of the terms of each sum; only with `probabilistic`
  std::vector<double> kappa;          ///< condition numbers (T-19); without a guarantee
  std::optional<CoarseProducts> sums;  ///< sums of magnitudes of the recorded rows; only if row kernels were used
};

/// Computes the local bounds of a product and its condition numbers.
/// Source:    docs/theory.md T-10 to T-13, T-19, T-21, T-68, T-69, T-74
ProductBounds product_bounds(const Product& product, const NodeView& view, const Setting& setting);

/// Returns |a_ik| ((1 + u)^(d_k) - 1), with d_k as in path_sums().
/// Shapes:    `a`: magnitudes as the left operand of the plan; result [batches, m, k]
/// Source:    docs/theory.md T-11
std::vector<double> weighted_by_paths(const ProductPlan& plan, std::span<const double> a, bool leave_out_last,
                                      const Setting& setting);

/// Returns sum_k ((1 + u)^(d_k) - 1) |a_ik| |b_kj|, where d_k is the number of roundings that product k meets in the
/// declared order, the last rounding of the sum excluded if `leave_out_last` is set.
/// Shapes:    `a`, `b`: magnitudes as the operands of the plan; result [batches, m, n]
/// Source:    docs/theory.md T-11
std::vector<double> path_sums(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                              bool leave_out_last, const Setting& setting);

/// Returns |alpha| (|A| E_B + E_A |B| + E_A E_B) + |beta| E_C, where E are the radii of the operands.
/// Shapes:    `radii`: one entry per input
/// Source:    docs/theory.md T-40
std::vector<double> propagate_product_node(const Product& product, const NodeView& view, std::span<const Radii> radii,
                                           const Setting& setting);

}  // namespace driftbound::bounds
