#include "evaluate/probe/mask_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound::probe {
namespace {

/// A part, and the node that its summands are below.
struct PartOfNode {
  std::vector<std::int64_t> members;
  std::size_t parent = 0;
  std::int64_t outside = -1;
  bool was_slow = false;  ///< its first summand told little apart
};

class TreeSearch {
public:
  TreeSearch(std::int64_t n, const CountsBelow& counts) : n_(n), counts_(counts) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    found_.push_back({n + 1, {}});  // above the root, which is its only child
    open_.push_back({std::move(all), 0, -1, false});
  }

  SummationTree run() {
    while (!open_.empty()) round();
    return tree();
  }

private:
  struct Found {
    std::int64_t below = 0;              ///< summands
    std::vector<std::int64_t> children;  ///< summands, and n + number of a node found
  };

  /// Asks for one summand of each open part next to all others of it.
  void round() {
    const std::vector<PartOfNode> parts = std::exchange(open_, {});
    std::vector<OpenPart> asked;
    for (const PartOfNode& part : parts)
      asked.push_back({part.members, pivot_of(part), found_[part.parent].below, part.outside});
    const std::vector<std::vector<std::int64_t>> counts = counts_(asked);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::map<std::int64_t, std::vector<std::int64_t>> by_count;
      std::size_t at = 0;
      for (const std::int64_t member : parts[i].members)
        if (member != asked[i].pivot) by_count[counts[i][at++]].push_back(member);
      divide(parts[i], asked[i].pivot, std::move(by_count));
    }
  }

  /// The first summand, which is enough where sums go from left to right; any other one where that would take long.
  std::int64_t pivot_of(const PartOfNode& part) {
    if (!part.was_slow) return part.members.front();
    draw_ = draw_ * 6364136223846793005U + 1442695040888963407U;
    return part.members[static_cast<std::size_t>((draw_ >> 33) % part.members.size())];
  }

  /// The nodes from the pivot up to the parent; what joins at each of them is open.
  void divide(const PartOfNode& part, std::int64_t pivot, std::map<std::int64_t, std::vector<std::int64_t>> by_count) {
    const std::int64_t limit = found_[part.parent].below;
    std::int64_t child = pivot, below = 1;
    for (auto& [count, members] : by_count) {
      if (count == limit) {  // other summands of the parent
        open_.push_back({std::move(members), part.parent, part.outside, part.was_slow});
        continue;
      }
      below += std::ssize(members);
      if (count != below) fail(pivot, members.front(), count);
      found_.push_back({count, {child}});
      child = n_ + std::ssize(found_) - 1;
      const bool is_slow = 2 * members.size() > part.members.size();
      open_.push_back({std::move(members), found_.size() - 1, pivot, is_slow});
    }
    found_[part.parent].children.push_back(child);
  }

  [[noreturn]] void fail(std::int64_t i, std::int64_t j, std::int64_t count) const {
    throw Unsupported("masks of products " + std::to_string(i) + " and " + std::to_string(j) + " leave out " +
                      std::to_string(count) +
                      " products, which fits no tree: the kernel's order of summation depends on the values, differs "
                      "between the rows of a call, or it forms other sums than of products (Strassen); declare its "
                      "order as unknown");
  }

  /// Nodes with fewer summands first, so that what a node adds stands before it.
  SummationTree tree() const {
    if (n_ == 1) return canonical_tree(1, {});
    std::vector<std::size_t> order(found_.size() - 1);
    std::iota(order.begin(), order.end(), 1);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return found_[a].below < found_[b].below; });
    std::vector<std::int64_t> number(found_.size());
    for (std::size_t t = 0; t < order.size(); ++t) number[order[t]] = n_ + static_cast<std::int64_t>(t);
    std::vector<std::vector<std::int64_t>> nodes;
    for (const std::size_t id : order) {
      nodes.push_back(found_[id].children);
      for (std::int64_t& child : nodes.back())
        if (child >= n_) child = number[static_cast<std::size_t>(child - n_)];
    }
    return canonical_tree(n_, nodes);
  }

  std::int64_t n_;
  const CountsBelow& counts_;
  std::vector<Found> found_;
  std::vector<PartOfNode> open_;
  std::uint64_t draw_ = 39;
};

}  // namespace

SummationTree find_tree(std::int64_t n, const CountsBelow& counts) {
  return TreeSearch(n, counts).run();
}

}  // namespace driftbound::probe
