#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "bounds/nodes/node_view.hpp"
#include "bounds/sums/term_patterns.hpp"

namespace driftbound::bounds {

/// Bounds of one node against its exact function on its recorded inputs.
struct LocalBound {
  std::vector<double> any_order;
  std::vector<double> partial_sums;   ///< any order; sums only, empty where T-68 does not hold
  std::vector<double> running;        ///< the declared order; sums only, empty where T-69 does not hold
  std::vector<double> order_aware;    ///< empty where there is no sum or its order is unknown
  std::vector<double> probabilistic;  ///< products only (T-74); infinite where `patterns` has a reason
  std::vector<TermPattern> patterns;
  std::vector<double> kappa;           ///< products only
  std::optional<CoarseProducts> sums;  ///< products only, as ProductBounds has them
  std::string theorem;
  std::string order_theorem;
  std::set<std::string> conditions;  ///< empty: proven

  /// The smallest of them for every element.
  std::vector<double> best() const;
};

/// Source:    docs/theory.md T-10 to T-18, T-21, T-68, T-69
LocalBound local_bound(const NodeView& view, const Setting& setting);

}  // namespace driftbound::bounds
