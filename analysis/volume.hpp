#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"

namespace driftbound::analysis {

/// Values and signs at the points of a grid of three coordinates, the last one running fastest (points_of_grid).
struct Volume {
  Box box;
  std::array<std::int64_t, 3> extents{};
  std::vector<double> values;  ///< near the exact ones, with their certified signs; 0 is a proven zero, NaN undecided
  std::vector<std::int8_t> signs;

  void add(std::span<const PointSign> points);
};

/// VTK's XML image data (.vti) with point data `value` and `sign` (-1, 0, 1, 2 undecided) and cell data `corners`: the
/// sign that all corners of a cell have; 0: they differ, so that the surface passes; 2: one is undecided.
std::string to_vti(const Volume& volume);

}  // namespace driftbound::analysis
