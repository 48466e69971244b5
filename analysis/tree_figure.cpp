#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analysis/probe_report.hpp"

namespace driftbound::analysis {
namespace {

constexpr double edge = 16, text_height = 20;

/// A tree as it is drawn: groups of products may be one leaf.
struct DrawnTree {
  SummationTree tree;
  std::vector<std::string> labels;  ///< of its leaves
};

/// Draws products that follow each other in one step as one leaf, and so all that is below a node with few products.
class Grouping {
public:
  explicit Grouping(const SummationTree& tree) : tree_(tree) {
    for (std::int64_t k = 0; k < tree.leaves; ++k) below_.push_back({k, k, 1});
    for (const std::vector<std::int64_t>& children : tree.nodes) {
      Below all = below_[static_cast<std::size_t>(children.front())];
      for (std::size_t i = 1; i < children.size(); ++i)
        all = joined(all, below_[static_cast<std::size_t>(children[i])]);
      below_.push_back(all);
    }
  }

  /// With all below a node of at most so many products as one leaf.
  DrawnTree drawn(std::int64_t products) const {
    std::vector<std::string> labels;
    std::vector<std::vector<std::int64_t>> nodes;
    std::vector<std::int64_t> names(below_.size(), 0);  // of leaves from -1 downward, of nodes from 0 on
    for (std::size_t id = static_cast<std::size_t>(tree_.leaves); id < below_.size(); ++id) {
      if (below_[id].count <= products) continue;
      std::vector<std::int64_t> children;
      for (const Summand& summand : summands_of(id, products)) {
        if (summand.is_leaf) labels.push_back(label(summand.below));
        children.push_back(summand.is_leaf ? -std::ssize(labels) : names[summand.id]);
      }
      names[id] = children.front();
      if (children.size() == 1) continue;
      nodes.push_back(std::move(children));
      names[id] = std::ssize(nodes) - 1;
    }
    for (std::vector<std::int64_t>& children : nodes)
      for (std::int64_t& child : children) child = child < 0 ? -child - 1 : child + std::ssize(labels);
    return {SummationTree{std::ssize(labels), std::move(nodes), {}}, std::move(labels)};
  }

private:
  struct Below {
    std::int64_t first = 0, last = 0, count = 0;
  };
  /// What a node adds, as it is drawn.
  struct Summand {
    Below below;
    std::size_t id = 0;  ///< of the node, or of the first product
    bool is_leaf = false;
  };

  std::vector<Summand> summands_of(std::size_t node, std::int64_t products) const {
    std::vector<Summand> summands;
    bool follows_product = false;
    for (const std::int64_t child : tree_.nodes[node - static_cast<std::size_t>(tree_.leaves)]) {
      const auto id = static_cast<std::size_t>(child);
      const bool is_product = child < tree_.leaves;
      if (is_product && follows_product && summands.back().below.last + 1 == child)
        summands.back().below = joined(summands.back().below, below_[id]);
      else
        summands.push_back({below_[id], id, is_product || below_[id].count <= products});
      follows_product = is_product;
    }
    return summands;
  }

  static Below joined(const Below& a, const Below& b) {
    return {std::min(a.first, b.first), std::max(a.last, b.last), a.count + b.count};
  }
  static std::string label(const Below& of) {
    if (of.count == 1) return fmt::format("{}", of.first);
    return fmt::format("{}{}{}", of.first, of.count == of.last - of.first + 1 ? "–" : "…", of.last);
  }

  const SummationTree& tree_;
  std::vector<Below> below_;
};

/// The tree itself, or with the smallest groups with which it has few enough leaves.
DrawnTree drawn_tree(const SummationTree& tree) {
  if (tree.leaves <= most_drawn_leaves) {
    DrawnTree drawn{tree, {}};
    for (std::int64_t k = 0; k < tree.leaves; ++k) drawn.labels.push_back(std::to_string(k));
    return drawn;
  }
  const Grouping grouping(tree);
  std::int64_t too_few = 0, enough = tree.leaves - 1;
  while (too_few + 1 < enough) {
    const std::int64_t between = too_few + (enough - too_few) / 2;
    (grouping.drawn(between).tree.leaves <= most_drawn_leaves ? enough : too_few) = between;
  }
  return grouping.drawn(enough);
}

/// Where products and nodes are drawn: products at the bottom in the order in which they are met, each node above what
/// it adds.
struct Drawing {
  std::vector<double> x, y;
  double width = 0.0, height = 0.0;
};

Drawing layout_of(const SummationTree& tree, double apart) {
  const auto all = static_cast<std::size_t>(tree.leaves) + tree.nodes.size();
  Drawing drawing{std::vector<double>(all), std::vector<double>(all), 0.0, 0.0};
  const double level = std::clamp(480.0 / static_cast<double>(std::max<std::int64_t>(tree.height(), 1)), 5.0, 40.0);
  const std::vector<std::int64_t> order =
      tree.products_below(tree.leaves + std::ssize(tree.nodes) - 1);  // so that no lines cross
  for (std::size_t i = 0; i < order.size(); ++i)
    drawing.x[static_cast<std::size_t>(order[i])] = edge + apart * (static_cast<double>(i) + 0.5);
  std::vector<double> levels(all, 0.0);
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    const std::size_t id = static_cast<std::size_t>(tree.leaves) + t;
    double sum = 0.0;
    for (const std::int64_t child : tree.nodes[t]) {
      sum += drawing.x[static_cast<std::size_t>(child)];
      levels[id] = std::max(levels[id], 1.0 + levels[static_cast<std::size_t>(child)]);
    }
    drawing.x[id] = sum / static_cast<double>(tree.nodes[t].size());
  }
  const double top = levels.back();
  for (std::size_t id = 0; id < all; ++id) drawing.y[id] = edge + level * (top - levels[id]);
  drawing.width = 2.0 * edge + apart * static_cast<double>(tree.leaves);
  drawing.height = 2.0 * edge + level * top + text_height;
  return drawing;
}

}  // namespace

std::string draw_tree(const SummationTree& whole) {
  if (whole.nodes.empty()) return "";
  const auto [tree, labels] = drawn_tree(whole);
  const bool has_groups = tree.leaves < whole.leaves, has_all_labels = tree.leaves <= 64;
  const Drawing drawing = layout_of(tree, has_groups && has_all_labels ? 60.0 : has_all_labels ? 22.0 : 12.0);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" role=\"img\" aria-label=\"summation tree\">\n",
      drawing.width, drawing.height);
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    const std::size_t id = static_cast<std::size_t>(tree.leaves) + t;
    for (const std::int64_t child : tree.nodes[t]) {
      const auto below = static_cast<std::size_t>(child);
      svg += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                         drawing.x[id], drawing.y[id], drawing.x[below], drawing.y[below]);
    }
    svg += fmt::format("<g class=\"measured\"><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/></g>\n", drawing.x[id],
                       drawing.y[id]);
  }
  const std::int64_t every = has_all_labels ? 1 : has_groups ? 8 : 4;
  for (std::int64_t k = 0; k < tree.leaves; k += every)
    svg += fmt::format("<text text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                       drawing.x[static_cast<std::size_t>(k)], drawing.y[static_cast<std::size_t>(k)] + 14.0,
                       labels[static_cast<std::size_t>(k)]);
  return svg + "</svg>\n";
}

}  // namespace driftbound::analysis
