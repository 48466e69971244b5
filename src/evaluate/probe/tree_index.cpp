#include "evaluate/probe/tree_index.hpp"

namespace driftbound::probe {

TreeIndex::TreeIndex(const SummationTree& tree) : tree_(tree) {
  const std::size_t all = static_cast<std::size_t>(tree.leaves) + tree.nodes.size();
  parents_.assign(all, -1);
  below_.assign(all, 1);
  first_.resize(all);
  for (std::int64_t k = 0; k < tree.leaves; ++k) first_[static_cast<std::size_t>(k)] = k;
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    const std::size_t id = static_cast<std::size_t>(tree.leaves) + t;
    first_[id] = first_product(tree.nodes[t].front());
    below_[id] = 0;
    for (const std::int64_t child : tree.nodes[t]) {
      parents_[static_cast<std::size_t>(child)] = static_cast<std::int64_t>(id);
      below_[id] += products_below(child);
    }
  }
}

std::int64_t TreeIndex::products_below_both(std::int64_t i, std::int64_t j) const {
  // What is added later has the larger number, so the smaller one of two goes up.
  while (i != j) {
    std::int64_t& lower = i < j ? i : j;
    lower = parent(lower);
  }
  return products_below(i);
}

std::optional<std::int64_t> TreeIndex::product_outside(std::int64_t node) const {
  const std::int64_t above = parent(node);
  if (above < 0) return std::nullopt;
  for (const std::int64_t child : children(above))
    if (child != node) return first_product(child);
  return std::nullopt;
}

}  // namespace driftbound::probe
