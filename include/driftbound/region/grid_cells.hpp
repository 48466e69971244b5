#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "driftbound/region/octree.hpp"
#include "driftbound/region/range.hpp"

namespace driftbound {

/// The cells between the points of a grid of three coordinates, and what is known of f all over each. Points and cells
/// are numbered as VTK does: the first coordinate runs fastest.
class GridCells {
public:
  using Place = std::array<std::size_t, 3>;

  /// Of no cell a sign is known at first.
  /// Shapes:    coordinates: those of the points, ascending, at least two of each
  /// Throws:    InvalidArgument
  explicit GridCells(std::array<std::vector<double>, 3> coordinates);

  std::size_t size() const { return signs_.size(); }
  /// -1 or 1: the sign that f has all over each cell; 0: not known.
  const std::vector<std::int8_t>& signs() const { return signs_; }

  /// Finds the signs over blocks of cells, halved until f has one sign over a block, or the block is one cell: by the
  /// tree where there is one and it says so, else by an enclosure of f. `goes_on` is asked between blocks.
  /// Guarantee: proven
  /// Throws:    Interrupted; as RegionEvaluator::ranges()
  /// Source:    docs/theory.md T-150, T-152
  void find_signs(const RegionEvaluator& evaluator, const Octree* octree = nullptr,
                  const std::function<bool()>& goes_on = {});

  /// Whether a point is a corner of a cell whose sign is not known.
  bool is_at_unknown(const Place& point) const;
  /// The sign that all corners of each cell have; 0: they differ, so that the surface passes; 2: one is undecided.
  /// Shapes:    point_signs: of all points, as Sign numbers them
  std::vector<std::int8_t> corners(std::span<const std::int8_t> point_signs) const;
  /// The sign that f has all over each cell; 0: it is 0 somewhere in it; 2: neither is known.
  /// Shapes:    corners: as corners() gives them
  std::vector<std::int8_t> states(std::span<const std::int8_t> corners) const;

private:
  struct Block;
  std::size_t extent(std::size_t c) const { return coordinates_[c].size() - 1; }
  std::size_t number_of(std::size_t i, std::size_t j, std::size_t k) const {
    return (k * extent(1) + j) * extent(0) + i;
  }
  void set(const Block& block, RegionSign sign);

  std::array<std::vector<double>, 3> coordinates_;
  std::vector<std::int8_t> signs_;
};

}  // namespace driftbound
