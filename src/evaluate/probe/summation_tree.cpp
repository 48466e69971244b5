#include "driftbound/evaluate/summation_tree.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/product_kernel.hpp"

namespace driftbound {
namespace {

std::size_t place(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// Nodes and fused products, as they are added.
class TreeWriter {
public:
  explicit TreeWriter(std::int64_t leaves) : leaves_(leaves), fused_(place(leaves), false) {}

  std::int64_t add(std::int64_t left, std::int64_t right) {
    nodes_.push_back({left, right});
    return leaves_ + std::ssize(nodes_) - 1;
  }
  /// Products first ... first + count - 1 from left to right.
  std::int64_t chain(std::int64_t first, std::int64_t count, bool fma) {
    std::int64_t sum = first;
    for (std::int64_t k = first + 1; k < first + count; ++k) {
      sum = add(sum, k);
      fused_[place(k)] = fma;
    }
    return sum;
  }
  std::int64_t halves(std::int64_t first, std::int64_t count, bool fma) {
    if (count <= 2) return chain(first, count, fma);
    const auto left = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count - 1)));
    const std::int64_t of_left = halves(first, left, fma);
    return add(of_left, halves(first + left, count - left, fma));
  }
  /// Chains of additions, or of steps that add `block` products to the running sum, whose sums are added.
  void dealt(const SumSchedule& schedule, bool fma, std::int64_t block = 1) {
    std::vector<std::int64_t> sums;
    std::size_t first = 0;
    for (const std::size_t end : schedule.ends) {
      sums.push_back(steps(std::span(schedule.terms).subspan(first, end - first), block));
      for (std::size_t at = first + 1; at < end; ++at) fused_[schedule.terms[at]] = fma;
      first = end;
    }
    for (const SumJoins::Join& join : schedule.joins.list) sums[join.to] = add(sums[join.to], sums[join.from]);
  }
  SummationTree tree() && {
    SummationTree result = canonical_tree(leaves_, nodes_);
    result.fused = std::move(fused_);
    return result;
  }

private:
  std::int64_t steps(std::span<const std::uint32_t> terms, std::int64_t block) {
    std::vector<std::int64_t> step;
    for (std::size_t first = 0; first < terms.size(); first += place(block)) {
      const std::span<const std::uint32_t> now = terms.subspan(first, std::min(place(block), terms.size() - first));
      step.insert(step.end(), now.begin(), now.end());
      if (step.size() == 1) continue;
      nodes_.push_back(std::move(step));
      step = {leaves_ + std::ssize(nodes_) - 1};
    }
    return step.front();
  }

  std::int64_t leaves_;
  std::vector<std::vector<std::int64_t>> nodes_;
  std::vector<bool> fused_;
};

/// Writes the nodes of a tree in the canonical order.
class CanonicalOrder {
public:
  CanonicalOrder(std::int64_t leaves, const std::vector<std::vector<std::int64_t>>& nodes)
      : leaves_(leaves), nodes_(nodes), smallest_(nodes.size()) {
    check();
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      std::int64_t smallest = leaves_;
      for (const std::int64_t child : nodes[t]) smallest = std::min(smallest, smallest_below(child));
      smallest_[t] = smallest;
    }
  }

  std::vector<std::vector<std::int64_t>> write() {
    // A stack instead of recursion: chains of many products are as deep as they are long.
    struct Visit {
      std::int64_t node;
      std::vector<std::int64_t> sorted, written;
    };
    std::vector<std::vector<std::int64_t>> result;
    if (nodes_.empty()) return result;
    std::vector<Visit> stack;
    const auto enter = [&](std::int64_t node) { stack.push_back({node, sorted_children(node), {}}); };
    enter(leaves_ + std::ssize(nodes_) - 1);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.written.size() < top.sorted.size()) {
        const std::int64_t next = top.sorted[top.written.size()];
        if (next < leaves_)
          top.written.push_back(next);
        else
          enter(next);
        continue;
      }
      result.push_back(std::move(top.written));
      stack.pop_back();
      if (!stack.empty()) stack.back().written.push_back(leaves_ + std::ssize(result) - 1);
    }
    return result;
  }

private:
  std::int64_t smallest_below(std::int64_t child) const {
    return child < leaves_ ? child : smallest_[place(child - leaves_)];
  }
  std::vector<std::int64_t> sorted_children(std::int64_t node) const {
    std::vector<std::int64_t> children = nodes_[place(node - leaves_)];
    std::sort(children.begin(), children.end(),
              [&](std::int64_t a, std::int64_t b) { return smallest_below(a) < smallest_below(b); });
    return children;
  }
  /// Every leaf and every node but the last is added once, after it was formed.
  void check() const {
    const std::int64_t all = leaves_ + std::ssize(nodes_);
    std::vector<bool> used(place(std::max<std::int64_t>(all, 0)), false);
    bool is_tree = leaves_ >= 1;
    for (std::int64_t t = 0; is_tree && t < std::ssize(nodes_); ++t) {
      is_tree = nodes_[place(t)].size() >= 2;
      for (const std::int64_t child : nodes_[place(t)]) {
        is_tree = is_tree && child >= 0 && child < leaves_ + t && !used[place(child)];
        if (is_tree) used[place(child)] = true;
      }
    }
    if (is_tree) is_tree = std::count(used.begin(), used.end(), false) == 1 && !used.back();
    if (!is_tree) throw InvalidArgument("summation tree: these nodes do not add every product once");
  }

  std::int64_t leaves_;
  const std::vector<std::vector<std::int64_t>>& nodes_;
  std::vector<std::int64_t> smallest_;
};

/// The tree of an order in steps of `block` products; empty where no matrix unit adds in that order.
std::optional<SummationTree> tree_in_steps(const SummationOrder& order, std::int64_t n, std::int64_t block) {
  ArithmeticModel unit;
  unit.tensor_core.emplace().block = static_cast<int>(block);
  const bool is_one_block = order.kind == SummationOrder::Kind::blocked && order.parameter >= n;
  unit.order = is_one_block ? SummationOrder{SummationOrder::Kind::sequential} : order;
  try {
    return tree_of(kernel_of(unit, n), n);
  } catch (const Unsupported&) {
    return std::nullopt;
  }
}

bool agrees(const SummationTree& tree, const SummationOrder& order) {
  if (!tree.is_binary()) {
    const std::optional<SummationTree> declared = tree_in_steps(order, tree.leaves, tree.products_at_once());
    return declared && tree.same_sums(*declared);
  }
  const SummationTree declared = tree_of(order, tree.leaves);
  return tree.same_sums(declared) && (tree.fused.empty() || tree.fused == declared.fused);
}

/// Orders that are dealt, as vectors, warps and BLAS libraries have them.
std::vector<SummationOrder> dealt_candidates(std::int64_t chain) {
  using Kind = Dealing::Kind;
  std::vector<SummationOrder> orders;
  const auto add = [&](const SumParts& parts) { orders.push_back({SummationOrder::Kind::dealt, 0, false, parts}); };
  std::vector<Dealing> blocks = {{Kind::contiguous, 1, chain, 1}}, lanes;
  for (const std::int64_t multiple : {1, 4, 8, 16}) blocks.push_back({Kind::balanced, 1, chain, multiple});
  for (const std::int64_t parts : {2, 4, 8, 16, 32, 64})
    for (const std::int64_t run : {1, 2, 4}) lanes.push_back({Kind::interleaved, parts, run, 1});
  for (const std::int64_t parts : {2, 4, 8})
    for (const std::int64_t multiple : {4, 8, 16}) lanes.push_back({Kind::interleaved, parts, 1, multiple});
  for (const Combination combination : {Combination::sequential, Combination::neighbours, Combination::halves}) {
    for (const Dealing& dealing : lanes) add({dealing, combination});
    for (const Dealing& dealing : blocks)
      if (dealing.kind == Kind::contiguous || combination == Combination::sequential) add({dealing, combination});
  }
  for (const Dealing& block : blocks)
    for (const Dealing& dealing : lanes)
      for (const Combination combination : {Combination::sequential, Combination::neighbours, Combination::halves})
        add({block, Combination::sequential, dealing, combination});
  return orders;
}

/// The length of the first block, where blocks of consecutive terms are added up each by itself.
std::int64_t first_block(const SummationTree& tree) {
  std::int64_t id = tree.leaves + std::ssize(tree.nodes) - 1;
  std::vector<std::int64_t> below(static_cast<std::size_t>(id) + 1, 1), last(below.size());
  std::iota(last.begin(), last.begin() + tree.leaves, 0);
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    const std::size_t node = place(tree.leaves) + t;
    below[node] = 0;
    for (const std::int64_t child : tree.nodes[t]) {
      below[node] += below[place(child)];
      last[node] = std::max(last[node], last[place(child)]);
    }
  }
  std::int64_t block = tree.leaves;
  while (id >= tree.leaves) {
    const std::vector<std::int64_t>& children = tree.nodes[place(id - tree.leaves)];
    if (children.size() != 2 || (block < tree.leaves && below[place(children[1])] == 1)) break;
    id = children[0];
    if (last[place(id)] + 1 != below[place(id)]) break;  // a lane, not a block
    block = below[place(id)];
  }
  return block;
}

}  // namespace

std::int64_t SummationTree::height() const {
  std::vector<std::int64_t> heights(nodes.size(), 0);
  for (std::size_t t = 0; t < nodes.size(); ++t)
    for (const std::int64_t child : nodes[t])
      heights[t] = std::max(heights[t], 1 + (child < leaves ? 0 : heights[place(child - leaves)]));
  return heights.empty() ? 0 : heights.back();
}

std::vector<std::int64_t> SummationTree::products_below(std::int64_t node) const {
  std::vector<std::int64_t> order, open = {node};
  while (!open.empty()) {
    const std::int64_t id = open.back();
    open.pop_back();
    if (id < leaves) {
      order.push_back(id);
      continue;
    }
    const std::vector<std::int64_t>& children = nodes[place(id - leaves)];
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return order;
}

bool SummationTree::is_binary() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const auto& children) { return children.size() == 2; });
}

std::int64_t SummationTree::products_at_once() const {
  std::int64_t most = 0;
  for (const std::vector<std::int64_t>& children : nodes)
    most = std::max<std::int64_t>(
        most, std::count_if(children.begin(), children.end(), [&](std::int64_t child) { return child < leaves; }));
  return most;
}

SummationTree canonical_tree(std::int64_t leaves, const std::vector<std::vector<std::int64_t>>& nodes) {
  SummationTree tree;
  tree.leaves = leaves;
  tree.nodes = CanonicalOrder(leaves, nodes).write();
  return tree;
}

SummationTree tree_of(const SummationOrder& order, std::int64_t n) {
  if (n < 1) throw InvalidArgument("summation tree: a sum has at least one product, not " + std::to_string(n));
  if (!order.gives_partial_sums())
    throw InvalidArgument("summation tree: the order '" + to_string(order) + "' does not say which sums are formed");
  TreeWriter writer(n);
  if (order.kind == SummationOrder::Kind::pairwise) {
    writer.halves(0, n, order.fma);
    return std::move(writer).tree();
  }
  if (order.kind == SummationOrder::Kind::dealt) {
    writer.dealt(schedule_of(order.parts, n), order.fma);
    return std::move(writer).tree();
  }
  std::int64_t first = 0, total = 0;
  for (const std::int64_t length : chain_lengths(order, n)) {
    const std::int64_t sum = writer.chain(first, length, order.fma);
    total = first == 0 ? sum : writer.add(total, sum);
    first += length;
  }
  return std::move(writer).tree();
}

SummationTree tree_of(const ProductKernel& kernel, std::int64_t n) {
  if (n < 1) throw InvalidArgument("summation tree: a sum has at least one product, not " + std::to_string(n));
  TreeWriter writer(n);
  writer.dealt(schedule_of(kernel.parts, n), kernel.fma, kernel.matrix_unit ? kernel.matrix_unit->block : 1);
  SummationTree tree = std::move(writer).tree();
  if (kernel.matrix_unit) tree.fused.clear();
  return tree;
}

SummationOrder order_of(const SummationTree& tree, const SummationOrder& preferred) {
  using Kind = SummationOrder::Kind;
  if (preferred.gives_partial_sums() && agrees(tree, preferred)) return preferred;
  std::vector<SummationOrder> candidates = {{Kind::sequential, 0, false}, {Kind::pairwise, 0, false}};
  if (tree.leaves > 1) {
    const std::int64_t block = first_block(tree);
    candidates.push_back({Kind::blocked, block, false});
    candidates.push_back({Kind::split_k, (tree.leaves + block - 1) / block, false});
    if (tree.is_binary())
      for (const SummationOrder& order : dealt_candidates(block)) candidates.push_back(order);
  }
  for (SummationOrder order : candidates)
    for (const bool fma : {false, true}) {
      order.fma = fma;
      if (agrees(tree, order)) return order;
    }
  if (!tree.is_binary()) return {};
  return {Kind::height, std::max<std::int64_t>(tree.height(), 1), false};
}

}  // namespace driftbound
