#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

struct ProductKernel;

/// In which order one sum of n products is formed: a tree whose leaves are the products 0 ... n - 1. Node n + t adds
/// what `nodes[t]` lists, products (below n) and earlier nodes, in one step: two of them in an addition, more in a
/// matrix unit. The last node is the root. Nodes are in the canonical order: every node lists what it adds by the
/// smallest product below it, and the nodes below one stand before it in the order in which it lists them. So two trees
/// that form the same sums are equal.
struct SummationTree {
  std::int64_t leaves = 0;
  std::vector<std::vector<std::int64_t>> nodes;
  /// Whether product k is added without being rounded first (fused multiply-add). Empty: not known, or all the same
  /// as products are exact.
  std::vector<bool> fused;

  /// Additions that a product passes through, at most; a step of a matrix unit counts as one.
  std::int64_t height() const;
  /// Whether every node adds two numbers.
  bool is_binary() const;
  /// The largest number of products that one node adds; 0 for one product.
  std::int64_t products_at_once() const;
  /// The products below a node, or a product itself, in the order of a walk through the tree.
  std::vector<std::int64_t> products_below(std::int64_t node) const;
  bool same_sums(const SummationTree& other) const { return leaves == other.leaves && nodes == other.nodes; }

  friend bool operator==(const SummationTree&, const SummationTree&) = default;
};

/// The tree of an order over n products (SummationOrder says which sums it forms).
/// Throws:    InvalidArgument where n is below 1, or the order does not say which sums are formed
SummationTree tree_of(const SummationOrder& order, std::int64_t n);

/// The tree of a kernel over n products; chains of a matrix unit go in steps of its block.
/// Throws:    InvalidArgument where n is below 1
SummationTree tree_of(const ProductKernel& kernel, std::int64_t n);

/// A tree from nodes in any order; the last one is the root.
/// Throws:    InvalidArgument where these are not the nodes of one tree over the leaves
SummationTree canonical_tree(std::int64_t leaves, const std::vector<std::vector<std::int64_t>>& nodes);

/// The named order that forms the same sums (and fuses the same products, where that is known), `preferred` if it does;
/// else height:H, or unknown for a tree with steps of a matrix unit. Steps have the widest block of the tree: chains of
/// them are `sequential`, parts that are chains of them `blocked:B` or `split-k:S` (kernel_of).
SummationOrder order_of(const SummationTree& tree, const SummationOrder& preferred = {});

/// The tree in words: "64 terms: 8 chains, term k in chain k mod 8, each added from left to right; the chains are added
/// pairwise".
std::string words_for(const SummationTree& tree);

}  // namespace driftbound
