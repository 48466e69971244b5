#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "driftbound/evaluate/summation_tree.hpp"
#include "driftbound/trace/product_kernel.hpp"

namespace driftbound {
namespace {

using Nodes = std::vector<std::vector<std::int64_t>>;

/// The products below a node: `count` of them from `first` to `last`, whose distances are multiples of `stride`.
struct Below {
  std::int64_t first = 0, last = 0, count = 0, stride = 0;

  bool is_a_progression() const { return count == 1 || count == (last - first) / stride + 1; }
  bool is_consecutive() const { return count == last - first + 1; }
};

Below joined(const Below& a, const Below& b) {
  if (a.count == 0) return b;
  return {std::min(a.first, b.first), std::max(a.last, b.last), a.count + b.count,
          std::gcd(std::gcd(a.stride, b.stride), a.first - b.first)};
}

/// What lies below every product and every node of a tree.
std::vector<Below> all_below(const SummationTree& tree) {
  std::vector<Below> below;
  for (std::int64_t k = 0; k < tree.leaves; ++k) below.push_back({k, k, 1, 0});
  for (const std::vector<std::int64_t>& children : tree.nodes) {
    Below of_node;
    for (const std::int64_t child : children) of_node = joined(of_node, below[static_cast<std::size_t>(child)]);
    below.push_back(of_node);
  }
  return below;
}

/// The tree below one node (or product) over its own products, in their order.
SummationTree part_below(const SummationTree& tree, std::int64_t root) {
  std::vector<bool> wanted(static_cast<std::size_t>(tree.leaves) + tree.nodes.size(), false);
  wanted[static_cast<std::size_t>(root)] = true;
  for (auto t = static_cast<std::int64_t>(tree.nodes.size()) - 1; t >= 0; --t)
    if (wanted[static_cast<std::size_t>(tree.leaves + t)])
      for (const std::int64_t child : tree.nodes[static_cast<std::size_t>(t)])
        wanted[static_cast<std::size_t>(child)] = true;
  std::vector<std::int64_t> name(wanted.size(), -1);
  SummationTree part;
  for (std::int64_t k = 0; k < tree.leaves; ++k)
    if (wanted[static_cast<std::size_t>(k)]) name[static_cast<std::size_t>(k)] = part.leaves++;
  Nodes nodes;
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    const auto id = static_cast<std::size_t>(tree.leaves) + t;
    if (!wanted[id]) continue;
    std::vector<std::int64_t> children;
    for (const std::int64_t child : tree.nodes[t]) children.push_back(name[static_cast<std::size_t>(child)]);
    nodes.push_back(std::move(children));
    name[id] = part.leaves + std::ssize(nodes) - 1;
  }
  return canonical_tree(part.leaves, nodes);
}

/// The tree in which the nodes of `groups`, which cover all products, are the summands, in their order.
SummationTree tree_over(const SummationTree& tree, const std::vector<std::int64_t>& groups) {
  std::vector<std::int64_t> name(static_cast<std::size_t>(tree.leaves) + tree.nodes.size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g)
    name[static_cast<std::size_t>(groups[g])] = static_cast<std::int64_t>(g);
  Nodes nodes;
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    std::vector<std::int64_t> children;
    for (const std::int64_t child : tree.nodes[t]) children.push_back(name[static_cast<std::size_t>(child)]);
    const bool is_above = std::find(children.begin(), children.end(), -1) == children.end();
    if (!is_above) continue;  // inside of a group, or a group
    nodes.push_back(std::move(children));
    name[static_cast<std::size_t>(tree.leaves) + t] = std::ssize(groups) + std::ssize(nodes) - 1;
  }
  return canonical_tree(std::ssize(groups), nodes);
}

/// The tree without the products from `count` on.
SummationTree first_products(const SummationTree& tree, std::int64_t count) {
  constexpr std::int64_t nothing = -1;
  std::vector<std::int64_t> name(static_cast<std::size_t>(tree.leaves) + tree.nodes.size(), nothing);
  for (std::int64_t k = 0; k < count; ++k) name[static_cast<std::size_t>(k)] = k;
  Nodes nodes;
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    std::vector<std::int64_t> children;
    for (const std::int64_t child : tree.nodes[t])
      if (name[static_cast<std::size_t>(child)] != nothing) children.push_back(name[static_cast<std::size_t>(child)]);
    std::int64_t& own = name[static_cast<std::size_t>(tree.leaves) + t];
    if (children.size() == 1) own = children.front();
    if (children.size() < 2) continue;
    nodes.push_back(std::move(children));
    own = count + std::ssize(nodes) - 1;
  }
  return canonical_tree(count, nodes);
}

/// The tree with `rest` more products, which are added to the sum of one node, one by one.
SummationTree with_rest(const SummationTree& tree, std::int64_t node, std::int64_t rest) {
  const std::int64_t leaves = tree.leaves + rest;
  const auto renamed = [&](std::int64_t id) { return id < tree.leaves ? id : id <= node ? id + rest : id + 2 * rest; };
  Nodes nodes;
  for (std::int64_t t = 0; t < std::ssize(tree.nodes); ++t) {
    const std::int64_t id = tree.leaves + t;
    std::vector<std::int64_t> children = tree.nodes[static_cast<std::size_t>(t)];
    for (std::int64_t& child : children) child = child == node ? renamed(node) + rest : renamed(child);
    nodes.push_back(std::move(children));
    for (std::int64_t k = 0; id == node && k < rest; ++k)
      nodes.push_back({leaves + std::ssize(nodes) - 1, tree.leaves + k});
  }
  return canonical_tree(leaves, nodes);
}

SummationTree right_to_left(std::int64_t n) {
  Nodes nodes;
  std::int64_t sum = n - 1;
  for (std::int64_t k = n - 2; k >= 0; --k) {
    nodes.push_back({sum, k});
    sum = n + std::ssize(nodes) - 1;
  }
  return canonical_tree(n, nodes);
}

/// Summand k with summand k + n / 2, and so on with the n / 2 sums; n is a power of two.
SummationTree halves_apart(std::int64_t n) {
  Nodes nodes;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(n));
  std::iota(sums.begin(), sums.end(), 0);
  while (sums.size() > 1) {
    const std::size_t half = sums.size() / 2;
    for (std::size_t k = 0; k < half; ++k) {
      nodes.push_back({sums[k], sums[k + half]});
      sums[k] = n + std::ssize(nodes) - 1;
    }
    sums.resize(half);
  }
  return canonical_tree(n, nodes);
}

/// `width` products and the running sum at a time.
SummationTree in_steps(std::int64_t n, std::int64_t width) {
  ProductKernel kernel;
  kernel.matrix_unit.emplace().block = static_cast<int>(width);
  return tree_of(kernel, n);
}

/// A pattern that has a name.
std::optional<std::string> name_of_pattern(const SummationTree& tree) {
  using Kind = SummationOrder::Kind;
  const std::int64_t n = tree.leaves;
  if (!tree.is_binary()) {
    const std::int64_t width = tree.products_at_once();
    if (width >= n) return "in one step";
    if (width > 1 && tree.same_sums(in_steps(n, width)))
      return "in steps of " + std::to_string(width) + ", from left to right";
    return std::nullopt;
  }
  if (tree.same_sums(tree_of({Kind::sequential}, n))) return n == 2 ? "to each other" : "from left to right";
  if (tree.same_sums(right_to_left(n))) return "from right to left";
  if (tree.same_sums(tree_of({Kind::pairwise}, n))) return "pairwise";
  if (std::has_single_bit(static_cast<std::uint64_t>(n)) && tree.same_sums(halves_apart(n)))
    return "in pairs half of their number apart";
  return std::nullopt;
}

/// How summands are added: " added pairwise", ": 8 chains, …".
std::optional<std::string> describe_sum(const SummationTree& tree);

/// Groups of products, each added up apart: how many there are, which products they have, and both orders.
std::optional<std::string> describe_groups(const SummationTree& tree, const std::vector<std::int64_t>& groups,
                                           const std::string& kind, const std::string& members) {
  const std::optional<std::string> above = name_of_pattern(tree_over(tree, groups));
  const std::optional<std::string> inside = describe_sum(part_below(tree, groups.front()));
  if (!above || !inside) return std::nullopt;
  return ": " + std::to_string(groups.size()) + " " + kind + ", " + members + ", each" + *inside + "; the " + kind +
         " are added " + *above;
}

/// Products whose indices leave the same remainder are added apart from the others.
std::optional<std::string> describe_lanes(const SummationTree& tree, const std::vector<Below>& below) {
  std::map<std::int64_t, std::vector<std::int64_t>, std::greater<>> by_stride;
  for (std::size_t id = static_cast<std::size_t>(tree.leaves); id < below.size(); ++id) {
    const Below& node = below[id];
    const bool is_all = node.is_a_progression() && node.first < node.stride && node.last + node.stride >= tree.leaves;
    if (node.stride > 1 && is_all) by_stride[node.stride].push_back(static_cast<std::int64_t>(id));
  }
  for (auto& [stride, lanes] : by_stride) {
    if (std::ssize(lanes) != stride) continue;
    std::sort(lanes.begin(), lanes.end(), [&](std::int64_t a, std::int64_t b) {
      return below[static_cast<std::size_t>(a)].first < below[static_cast<std::size_t>(b)].first;
    });
    const std::string number = std::to_string(stride);
    if (const auto text = describe_groups(tree, lanes, "chains", "term k in chain k mod " + number)) return text;
  }
  return std::nullopt;
}

/// The nodes that have the products 0 ... size - 1, size ... 2 size - 1 and so on; empty where there are none such.
std::vector<std::int64_t> blocks_of(const SummationTree& tree, const std::vector<Below>& below, std::int64_t size) {
  std::vector<std::int64_t> blocks(static_cast<std::size_t>((tree.leaves + size - 1) / size), -1);
  for (std::size_t id = 0; id < below.size(); ++id) {
    const Below& node = below[id];
    const bool is_block =
        node.is_consecutive() && node.first % size == 0 && node.last + 1 == std::min(node.first + size, tree.leaves);
    if (is_block) blocks[static_cast<std::size_t>(node.first / size)] = static_cast<std::int64_t>(id);
  }
  if (std::find(blocks.begin(), blocks.end(), -1) != blocks.end()) blocks.clear();
  return blocks;
}

std::optional<std::string> describe_blocks(const SummationTree& tree, const std::vector<Below>& below) {
  std::set<std::int64_t> sizes;
  for (const Below& node : below)
    if (node.first == 0 && node.is_consecutive() && node.count > 1 && node.count < tree.leaves)
      sizes.insert(node.count);
  for (const std::int64_t size : sizes) {
    const std::vector<std::int64_t> blocks = blocks_of(tree, below, size);
    if (blocks.empty()) continue;
    const std::int64_t rest = tree.leaves % size;
    if (blocks.size() == 2 && rest != 0 && !name_of_pattern(part_below(tree, blocks.front()))) continue;
    const std::string members = std::to_string(size) + " consecutive terms in each" +
                                (rest == 0 ? "" : " but the last, which has " + std::to_string(rest));
    if (const auto text = describe_groups(tree, blocks, "blocks", members)) return text;
  }
  return std::nullopt;
}

/// A pattern that has a name, or chains.
std::optional<std::string> describe_block(const SummationTree& tree) {
  if (const auto name = name_of_pattern(tree)) return " added " + *name;
  return describe_lanes(tree, all_below(tree));
}

/// "blocks of consecutive terms", or "lanes of 8 terms in turn"; empty: the groups are neither.
std::string kind_of_groups(const SummationTree& tree, const std::vector<std::int64_t>& groups) {
  std::vector<std::vector<std::int64_t>> products;
  bool are_consecutive = true;
  for (const std::int64_t group : groups) {
    products.push_back(tree.products_below(group));
    std::sort(products.back().begin(), products.back().end());
    are_consecutive =
        are_consecutive && products.back().back() - products.back().front() + 1 == std::ssize(products.back());
  }
  if (are_consecutive) return "blocks of consecutive terms";
  const std::vector<std::int64_t>& first = products.front();
  std::int64_t run = 0;
  while (run < std::ssize(first) && first[static_cast<std::size_t>(run)] == run) ++run;
  for (std::size_t lane = 0; run > 0 && lane < products.size(); ++lane)
    for (const std::int64_t product : products[lane])
      if (product / run % std::ssize(products) != static_cast<std::int64_t>(lane)) return "";
  return run == 0 ? "" : "lanes of " + std::to_string(run) + " terms in turn";
}

/// Blocks of consecutive products of several lengths, or lanes, added one after the other; each has the same pattern.
std::optional<std::string> describe_uneven_blocks(const SummationTree& tree) {
  std::vector<std::int64_t> blocks = {tree.leaves + std::ssize(tree.nodes) - 1};
  while (blocks.back() >= tree.leaves && !describe_block(part_below(tree, blocks.back()))) {
    const std::vector<std::int64_t>& children = tree.nodes[static_cast<std::size_t>(blocks.back() - tree.leaves)];
    if (children.size() != 2) return std::nullopt;
    blocks.back() = children[1];
    blocks.push_back(children[0]);
  }
  std::map<std::int64_t, std::int64_t, std::greater<>> lengths;
  std::set<std::string> patterns;
  for (const std::int64_t block : blocks) {
    const SummationTree part = part_below(tree, block);
    const std::optional<std::string> pattern = describe_block(part);
    if (!pattern || part.leaves < 3) return std::nullopt;
    patterns.insert(*pattern);
    ++lengths[part.leaves];
  }
  std::reverse(blocks.begin(), blocks.end());
  if (patterns.size() > 1 || name_of_pattern(tree_over(tree, blocks)) != "from left to right") return std::nullopt;
  const std::string kind = kind_of_groups(tree, blocks);
  if (kind.empty()) return std::nullopt;
  std::string text;
  for (const auto& [length, count] : lengths)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + std::to_string(length);
  return ": " + std::to_string(blocks.size()) + " " + kind + " (" + text + "), each" + *patterns.begin() + "; the " +
         kind.substr(0, kind.find(' ')) + " are added from left to right";
}

/// The same order of the first products, the last ones being added to the first chain before the chains are.
std::optional<std::string> describe_lanes_with_rest(const SummationTree& tree) {
  constexpr std::int64_t most = 31;
  for (std::int64_t rest = 1; rest <= std::min(most, tree.leaves - 4); ++rest) {
    const std::int64_t kept = tree.leaves - rest;
    const SummationTree first = first_products(tree, kept);
    const std::vector<Below> below = all_below(first);
    const std::optional<std::string> text = describe_lanes(first, below);
    if (!text) continue;
    for (std::size_t id = static_cast<std::size_t>(kept); id < below.size(); ++id) {
      if (below[id].first != 0 || below[id].stride < 2 || kept % below[id].stride != 0) continue;
      if (tree.same_sums(with_rest(first, static_cast<std::int64_t>(id), rest)))
        return ": the first " + std::to_string(kept) + *text + "; the last " + std::to_string(rest) +
               " are added to the chain of term 0 first, one by one";
    }
  }
  return std::nullopt;
}

/// The last products are added one by one to the sum of the others.
std::optional<std::string> describe_tail(const SummationTree& tree) {
  std::int64_t root = tree.leaves + std::ssize(tree.nodes) - 1, tail = 0;
  while (root >= tree.leaves) {
    const std::vector<std::int64_t>& children = tree.nodes[static_cast<std::size_t>(root - tree.leaves)];
    if (children.size() != 2 || children[1] != tree.leaves - 1 - tail) break;
    root = children[0];
    ++tail;
  }
  if (tail == 0 || root < tree.leaves) return std::nullopt;
  const std::optional<std::string> text = describe_sum(part_below(tree, root));
  if (!text) return std::nullopt;
  return ": the first " + std::to_string(tree.leaves - tail) + *text + "; then the last " + std::to_string(tail) +
         " are added one by one";
}

std::optional<std::string> describe_sum(const SummationTree& tree) {
  if (const auto name = name_of_pattern(tree)) return " added " + *name;
  const std::vector<Below> below = all_below(tree);
  if (const auto lanes = describe_lanes(tree, below)) return lanes;
  if (const auto tail = describe_tail(tree)) return tail;
  if (const auto blocks = describe_blocks(tree, below)) return blocks;
  if (const auto lanes = describe_lanes_with_rest(tree)) return lanes;
  return describe_uneven_blocks(tree);
}

}  // namespace

std::string words_for(const SummationTree& tree) {
  if (tree.leaves == 1) return "1 term";
  const std::string all = std::to_string(tree.leaves) + " terms";
  if (const auto text = describe_sum(tree)) return all + *text;
  return all + ", added in no pattern that has a name here; each passes through " + std::to_string(tree.height()) +
         " additions at most";
}

}  // namespace driftbound
