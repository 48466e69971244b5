#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "bounds/nodes/node_view.hpp"
#include "bounds/sums/term_patterns.hpp"

namespace driftbound::bounds {

/// Local bounds of one node: upper bounds of |y - f(x)| per output element, where y is the stored output, x the
/// recorded inputs and f the exact function.
struct LocalBound {
  std::vector<double> any_order;
  std::vector<double> partial_sums;   ///< any order, by T-68; sums only, empty if T-68 does not apply
  std::vector<double> running;        ///< the declared order, by T-69; sums only, empty if T-69 does not apply
  std::vector<double> order_aware;    ///< the declared order, by `order_theorem`; empty without a sum or a known order
  std::vector<double> probabilistic;  ///< products only (T-74); infinite if `patterns` is not none
  std::vector<TermPattern> patterns;
  std::vector<double> kappa;           ///< products only
  std::optional<CoarseProducts> sums;  ///< products only, as in ProductBounds
  std::string theorem;                 ///< of `any_order`
  std::string order_theorem;           ///< of `order_aware`
  std::set<std::string> conditions;    ///< the assumptions of the bounds; empty: proven

  /// Returns, per element, the smallest of any_order, partial_sums, order_aware and running.
  std::vector<double> best() const;
};

/// Computes the local bounds of a node. An element is infinite if the operands that it depends on, or the stored
/// result, are not finite.
/// Source:    docs/theory.md T-10 to T-18, T-21, T-68, T-69
LocalBound local_bound(const NodeView& view, const Setting& setting);

}  // namespace driftbound::bounds
