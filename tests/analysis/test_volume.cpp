#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "analysis/volume.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "region/mesh_networks.hpp"

using namespace driftbound;

TEST_CASE("cells of an image have a sign where the sphere does not pass them, and there alone") {
  analysis::Volume volume;
  volume.box = {{-1, -1, -1}, {1, 1, 1}};
  volume.extents = {9, 17, 13};
  const analysis::Points points = analysis::points_of_grid(volume.box, {9, 17, 13});
  const RegionEvaluator evaluator(mesh_networks::sphere(0.5F), {.gradients = false, .rounding = false, .symbols = 0});
  analysis::find_cell_signs(volume, *points, evaluator, [] { return true; });
  REQUIRE(volume.cell_signs.size() == 8 * 16 * 12);
  int known = 0;
  for (std::size_t cell = 0; cell < volume.cell_signs.size(); ++cell) {
    const std::size_t place[] = {cell % 8, cell / 8 % 16, cell / 8 / 16};
    double nearest = 0.0, farthest = 0.0;  // squares, from the middle of the sphere
    for (std::size_t c = 0; c < 3; ++c) {
      const double step = 2.0 / static_cast<double>(volume.extents[c] - 1);
      const double lower = -1.0 + step * static_cast<double>(place[c]), upper = lower + step;
      const double least = lower <= 0.0 && upper >= 0.0 ? 0.0 : std::fmin(std::fabs(lower), std::fabs(upper));
      nearest += least * least;
      farthest += std::fmax(lower * lower, upper * upper);
    }
    if (nearest < 0.5 - 1e-9 && farthest > 0.5 + 1e-9) CHECK(volume.cell_signs[cell] == 0);
    if (farthest < 0.5 - 1e-9) CHECK(volume.cell_signs[cell] <= 0);
    if (nearest > 0.5 + 1e-9) CHECK(volume.cell_signs[cell] >= 0);
    known += volume.cell_signs[cell] != 0 ? 1 : 0;
  }
  CHECK(known > 1000);
  CHECK_THROWS_AS(analysis::find_cell_signs(volume, *points, evaluator, [] { return false; }), Interrupted);
}
