#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "driftbound/region/octree.hpp"
#include "implicit/float_network.hpp"

namespace driftbound {

namespace region {

/// Cells in the order in which they were enclosed: children lie side by side behind all cells of their parent's depth.
struct OctreeCells {
  std::vector<std::uint32_t> node;  ///< 4 (first child) + sign + 1; the first child 0 is none
  std::vector<float> steepness;     ///< upper bound of the 2-norm of the gradient
  /// Unknown sign: Range::rounding, rounded up; certain sign: the least |f|, rounded down.
  std::vector<float> margin;

  std::uint32_t size() const { return static_cast<std::uint32_t>(node.size()); }
  bool is_certain(std::uint32_t cell) const { return sign(cell) != RegionSign::unknown; }
  RegionSign sign(std::uint32_t cell) const { return static_cast<RegionSign>(static_cast<int>(node[cell] & 3U) - 1); }
  std::uint32_t first_child(std::uint32_t cell) const { return node[cell] >> 2U; }
};

inline double middle_of(double lower, double upper) {
  return lower / 2.0 + upper / 2.0;
}

/// A way down to the cell that holds a point.
class Descent {
public:
  static constexpr std::size_t most = 4;

  Descent(const OctreeCells& cells, const Box& domain) : cells_(cells), d_(domain.lower.size()) {
    for (std::size_t j = 0; j < d_; ++j) {
      lower[j] = domain.lower[j];
      upper[j] = domain.upper[j];
    }
  }

  bool holds(const double* point) const {
    bool inside = true;
    for (std::size_t j = 0; j < d_; ++j) inside = inside && point[j] >= lower[j] && point[j] <= upper[j];
    return inside;
  }
  bool is_divided() const { return cells_.first_child(cell) != 0; }
  void step(const double* point) {
    std::uint32_t child = cells_.first_child(cell);
    for (std::size_t j = 0; j < d_; ++j) {
      const double middle = middle_of(lower[j], upper[j]);
      const bool is_upper = point[j] > middle;
      (is_upper ? lower[j] : upper[j]) = middle;
      child += is_upper ? std::uint32_t{1} << j : 0U;
    }
    cell = child;
    ++depth;
  }

  std::uint32_t cell = 0;
  int depth = 0;
  double lower[most] = {}, upper[most] = {};

private:
  const OctreeCells& cells_;
  std::size_t d_;
};

/// What a file keeps of a tree.
struct OctreeContent {
  Box domain;
  OctreeCells cells;
  std::uint32_t next = 0;             ///< cells before have been divided where their sign is unknown
  std::vector<std::int64_t> unknown;  ///< cells by depth that are unknown and not divided
  std::vector<std::uint32_t> first_of_depth;
};

}  // namespace region

class Octree::State : public region::OctreeContent {
public:
  State(RegionEvaluator evaluator, region::OctreeContent content);
  /// `target` null: the only output.
  static RegionEvaluator evaluator_of(const Graph& graph, const Target* target, const OctreeOptions& options);

  std::size_t dimension() const { return domain.lower.size(); }
  std::uint32_t children() const { return std::uint32_t{1} << dimension(); }

  void refine(const OctreeOptions& options);
  OctreeCell cell(std::uint32_t cell, int depth, const double* lower, const double* upper) const;
  /// The cell that is not divided and holds a point of the domain.
  region::Descent leaf_at(const double* point) const;
  /// The sign of all cells under this one that are not divided and share more with a box than their borders, where it
  /// is one. The box meets this cell.
  RegionSign sign_over(const region::Descent& cell, const Box& box) const;
  OctreeCounts counts() const;
  double certain_share() const;
  bool is_complete(const OctreeOptions& options) const;

  /// Calls visit(cell, depth, lower, upper) for every cell in the order in which they were enclosed.
  template <class Visit>
  void each(const Visit& visit) const {
    const std::size_t d = dimension();
    Boxes front;
    front.dimension = d;
    front.add(domain.lower, domain.upper);
    std::uint32_t first = 0;
    for (int depth = 0; front.size() > 0 && first < cells.size(); ++depth) {
      Boxes behind;
      behind.dimension = d;
      for (std::size_t i = 0; i < front.size(); ++i) {
        const double* const lower = front.lower.data() + i * d;
        const double* const upper = front.upper.data() + i * d;
        visit(first + static_cast<std::uint32_t>(i), depth, lower, upper);
        if (cells.first_child(first + static_cast<std::uint32_t>(i)) != 0) add_children(lower, upper, behind);
      }
      first += static_cast<std::uint32_t>(front.size());
      front = std::move(behind);
    }
  }
  void add_children(const double* lower, const double* upper, Boxes& boxes) const;

  /// A bound of the gradient's 2-norm in the domain: of a cell the smaller of its own and of the largest of its parts.
  /// Source:    docs/theory.md T-155
  double steepest() const;

  /// Float32 evaluation without the iso value; null where the network has none.
  const implicit::FloatNetwork* float_network() const;

  /// The evaluator, by one thread and without rounding errors.
  const RegionEvaluator& exact_evaluator() const;

  RegionEvaluator evaluator;

private:
  mutable std::once_flag exact_once_;
  mutable std::optional<const RegionEvaluator> exact_evaluator_;
  mutable std::once_flag steepest_once_;
  mutable double steepest_ = 0.0;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const implicit::FloatNetwork> float_network_;
};

}  // namespace driftbound
