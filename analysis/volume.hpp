#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/point_source.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/region/octree.hpp"
#include "driftbound/region/range.hpp"

namespace driftbound::analysis {

/// Values and signs at the points of a grid of three coordinates, the last one running fastest (points_of_grid).
struct Volume {
  Box box;
  std::array<std::int64_t, 3> extents{};
  std::vector<double> values;  ///< near the exact ones, with their certified signs; 0 is a proven zero, NaN undecided
  std::vector<std::int8_t> signs;
  /// Of every cell, in VTK's order: the sign that f has all over it; 0: not known. Empty: none is known.
  std::vector<std::int8_t> cell_signs;
  /// Numbers of points that a tree has decided, so that their values are only as large as |f| is at least, and that are
  /// corners of a cell whose sign is not known.
  std::vector<std::int64_t> unvalued;

  void add(std::span<const PointSign> points);
};

/// Finds the signs of blocks of cells, halved until f has one sign over a block, or the block is one cell: by the tree
/// where there is one and it says so, else by an enclosure of f. `points` are those of the grid; `goes_on` is asked
/// between blocks. Before points are added.
/// Throws:    Interrupted; as RegionEvaluator::ranges()
void find_cell_signs(Volume& volume, const PointSource& points, const RegionEvaluator& evaluator, const Octree* octree,
                     const std::function<bool()>& goes_on);

/// Evaluates the points without values that the surface may pass: their values are then near the exact ones. `points` are
/// those of the grid; `goes_on` is asked between blocks.
/// Throws:    Interrupted; as SignField::signs()
void evaluate_unvalued(Volume& volume, const PointSource& points, const SignField& field,
                       const std::function<bool()>& goes_on);

/// VTK's XML image data (.vti) with point data `value` and `sign` (-1, 0, 1, 2 undecided) and cell data: `corners`, the
/// sign that all corners of a cell have; 0: they differ, so that the surface passes; 2: one is undecided; and `state`,
/// the sign that f has all over the cell, certified; 0: it is 0 in the cell; 2: not known.
std::string to_vti(const Volume& volume);

}  // namespace driftbound::analysis
