#include <fmt/format.h>

#include <algorithm>

#include "analysis/probe_report.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::int64_t most_leaves = 256;
constexpr double edge = 16, text_height = 20;

/// Where products and nodes are drawn: products at the bottom in the order in which they are met, each node above what
/// it adds.
struct Drawing {
  std::vector<double> x, y;
  double width = 0.0, height = 0.0;
};

/// The products in the order of a walk through the tree, so that no lines cross.
std::vector<std::int64_t> walk(const SummationTree& tree) {
  std::vector<std::int64_t> order, open = {tree.leaves + std::ssize(tree.nodes) - 1};
  while (!open.empty()) {
    const std::int64_t id = open.back();
    open.pop_back();
    if (id < tree.leaves) {
      order.push_back(id);
      continue;
    }
    const std::vector<std::int64_t>& children = tree.nodes[static_cast<std::size_t>(id - tree.leaves)];
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return order;
}

Drawing layout_of(const SummationTree& tree) {
  const auto all = static_cast<std::size_t>(tree.leaves) + tree.nodes.size();
  Drawing drawing{std::vector<double>(all), std::vector<double>(all), 0.0, 0.0};
  const double apart = tree.leaves <= 64 ? 22.0 : 12.0;
  const double level = std::clamp(480.0 / static_cast<double>(std::max<std::int64_t>(tree.height(), 1)), 5.0, 40.0);
  const std::vector<std::int64_t> order = walk(tree);
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

std::string draw_tree(const SummationTree& tree) {
  if (tree.leaves > most_leaves || tree.nodes.empty()) return "";
  const Drawing drawing = layout_of(tree);
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
  const std::int64_t every = tree.leaves <= 64 ? 1 : 4;
  for (std::int64_t k = 0; k < tree.leaves; k += every)
    svg += fmt::format("<text text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                       drawing.x[static_cast<std::size_t>(k)], drawing.y[static_cast<std::size_t>(k)] + 14.0, k);
  return svg + "</svg>\n";
}

}  // namespace driftbound::analysis
