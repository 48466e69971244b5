#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/surface_difference.hpp"
#include "region/mesh_networks.hpp"

using namespace driftbound;
using analysis::difference_of;

TEST_CASE("surfaces differ in cells, false components and missing ones") {
  MeshOptions options;
  options.cell = 0.125;
  const SurfaceMesh balls = mesh(mesh_networks::two_spheres(false), Box{{-1, -1, -1}, {1, 1, 1}}, options);
  REQUIRE(balls.topology.components.size() == 2);
  const std::vector<double>& exact = balls.cells.values;
  const auto of_values = [&](const std::vector<double>& values) {
    return difference_of(balls, mesh_of_values(balls.cells, values));
  };
  const analysis::SurfaceDifference none = of_values(exact);
  CHECK(none.cells == 0);
  CHECK(none.false_components == 0);
  CHECK(none.missing_components == 0);

  // A speck around the node that is farthest outside, in the eight cells that hold it, where they are known.
  std::vector<double> values = exact;
  const std::ptrdiff_t outside = std::max_element(values.begin(), values.end()) - values.begin();
  values[static_cast<std::size_t>(outside)] = -1e-9;
  const auto cells = std::count_if(balls.cells.corners.begin(), balls.cells.corners.end(), [&](const auto& corners) {
    return std::find(corners.begin(), corners.end(), static_cast<std::int32_t>(outside)) != corners.end();
  });
  const analysis::SurfaceDifference speck = of_values(values);
  CHECK(speck.cells == cells);
  CHECK(speck.false_components == 1);
  CHECK(speck.missing_components == 0);

  // One of the balls is not seen.
  values = exact;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (balls.cells.point(i)[0] > 0.0) values[i] = std::fabs(values[i]);
  const analysis::SurfaceDifference half = of_values(values);
  CHECK(half.cells > 0);
  CHECK(half.false_components == 0);
  CHECK(half.missing_components == 1);
}
