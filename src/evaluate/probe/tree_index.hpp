#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "driftbound/evaluate/summation_tree.hpp"

namespace driftbound::probe {

/// Where the products and nodes of a tree stand in it. Products are 0 ... n - 1, node t is n + t.
class TreeIndex {
public:
  explicit TreeIndex(const SummationTree& tree);

  const SummationTree& tree() const { return tree_; }
  /// The node that adds it; -1 for the root.
  std::int64_t parent(std::int64_t id) const { return parents_[static_cast<std::size_t>(id)]; }
  /// The smallest product below it, or itself.
  std::int64_t first_product(std::int64_t id) const { return first_[static_cast<std::size_t>(id)]; }
  /// Products below it, or 1.
  std::int64_t products_below(std::int64_t id) const { return below_[static_cast<std::size_t>(id)]; }
  const std::vector<std::int64_t>& children(std::int64_t node) const {
    return tree_.nodes[static_cast<std::size_t>(node - tree_.leaves)];
  }
  bool is_product(std::int64_t id) const { return id < tree_.leaves; }
  /// Products below the lowest node that has both of them below it.
  std::int64_t products_below_both(std::int64_t i, std::int64_t j) const;
  /// Some product that is not below the node.
  std::optional<std::int64_t> product_outside(std::int64_t node) const;

private:
  SummationTree tree_;
  std::vector<std::int64_t> parents_, first_, below_;
};

}  // namespace driftbound::probe
