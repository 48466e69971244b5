#pragma once

#include <optional>
#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "bounds/nodes/node_view.hpp"
#include "bounds/sums/term_patterns.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {

/// y = alpha sum_k a_ik b_kj + beta c: what Gemm and MatMul have in common.
struct Product {
  ProductPlan plan;
  double alpha = 1.0;
  double beta = 1.0;
  bool has_addend = false;           ///< input 2 is c
  bool operands_are_bounds = false;  ///< of magnitudes that are not recorded: any of them may be small
};

/// The product a node computes; empty for other ops.
std::optional<Product> product_of(const NodeView& view);

struct ProductBounds {
  std::vector<double> any_order;
  std::vector<double> partial_sums;   ///< any order; empty where T-68 does not hold
  std::vector<double> running;        ///< the declared order; empty where T-69 does not hold
  std::vector<double> order_aware;    ///< empty where the order is unknown, or a matrix unit's
  std::vector<double> probabilistic;  ///< any order; infinite where patterns say so, empty where it is not wanted
  std::vector<TermPattern> patterns;  ///< of the sums, where `probabilistic` is there
  std::vector<double> kappa;
  std::optional<CoarseProducts> sums;  ///< of the recorded rows, where loops over rows found the bounds
};

/// Local bounds of a product and its condition numbers.
/// Source:    docs/theory.md T-10 to T-13, T-19, T-21, T-68, T-69, T-74
ProductBounds product_bounds(const Product& product, const NodeView& view, const Setting& setting);

/// |a_ik| ((1 + u)^(d_k) - 1), d_k as below, packed [batches, m, k].
/// Source:    docs/theory.md T-11
std::vector<double> weighted_by_paths(const ProductPlan& plan, std::span<const double> a, bool leave_out_last,
                                      const Setting& setting);

/// sum_k ((1 + u)^(d_k) - 1) |a_ik| |b_kj|, d_k the roundings that the product meets in the declared order; one less
/// where the last one is left out.
/// Shapes:    a, b magnitudes as the operands of the plan
/// Source:    docs/theory.md T-11
std::vector<double> path_sums(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                              bool leave_out_last, const Setting& setting);

/// |alpha| (|A| E_B + E_A |B| + E_A E_B) + |beta| E_C.
/// Shapes:    radii one entry per input
/// Source:    docs/theory.md T-40
std::vector<double> propagate_product_node(const Product& product, const NodeView& view, std::span<const Radii> radii,
                                           const Setting& setting);

}  // namespace driftbound::bounds
