#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/point_source.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/region/grid_cells.hpp"

namespace driftbound::analysis {

/// Values and signs at the points of a grid of three coordinates, the last one running fastest (points_of_grid).
struct Volume {
  Box box;
  std::array<std::int64_t, 3> extents{};
  std::vector<double> values;  ///< near the exact ones, with their certified signs; 0 is a proven zero, NaN undecided
  std::vector<std::int8_t> signs;
  std::optional<GridCells> cells;  ///< by place_cells()
  /// Numbers of points that a tree has decided, so that their values are only as large as |f| is at least, and that are
  /// corners of a cell whose sign is not known.
  std::vector<std::int64_t> unvalued;

  void add(std::span<const PointSign> points);
};

/// The cells between `points`, those of the grid; of none a sign is known. Before points are added.
void place_cells(Volume& volume, const PointSource& points);

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
