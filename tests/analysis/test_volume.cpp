#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "analysis/certification.hpp"
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
  analysis::place_cells(volume, *points);
  volume.cells->find_signs(evaluator);
  const std::vector<std::int8_t>& signs = volume.cells->signs();
  REQUIRE(signs.size() == 8 * 16 * 12);
  int known = 0;
  for (std::size_t cell = 0; cell < signs.size(); ++cell) {
    const std::size_t place[] = {cell % 8, cell / 8 % 16, cell / 8 / 16};
    double nearest = 0.0, farthest = 0.0;  // squares, from the middle of the sphere
    for (std::size_t c = 0; c < 3; ++c) {
      const double step = 2.0 / static_cast<double>(volume.extents[c] - 1);
      const double lower = -1.0 + step * static_cast<double>(place[c]), upper = lower + step;
      const double least = lower <= 0.0 && upper >= 0.0 ? 0.0 : std::fmin(std::fabs(lower), std::fabs(upper));
      nearest += least * least;
      farthest += std::fmax(lower * lower, upper * upper);
    }
    if (nearest < 0.5 - 1e-9 && farthest > 0.5 + 1e-9) CHECK(signs[cell] == 0);
    if (farthest < 0.5 - 1e-9) CHECK(signs[cell] <= 0);
    if (nearest > 0.5 + 1e-9) CHECK(signs[cell] >= 0);
    known += signs[cell] != 0 ? 1 : 0;
  }
  CHECK(known > 1000);
  CHECK_THROWS_AS(volume.cells->find_signs(evaluator, nullptr, [] { return false; }), Interrupted);
  CHECK_THROWS_AS(volume.cells->corners(signs), InvalidArgument);
  CHECK_THROWS_AS(GridCells({{{0.0, 1.0}, {0.0, 1.0}, {0.0}}}), InvalidArgument);
}

TEST_CASE("an image by a tree has the same signs, no fewer known cells, and values where the surface may pass") {
  const Graph graph = mesh_networks::sphere(0.5F);
  const std::vector<std::int64_t> extents = {17, 17, 15};
  const auto image_of = [&](const Octree* octree) {
    analysis::Volume volume;
    volume.box = {{-1, -1, -1}, {1, 1, 1}};
    volume.extents = {17, 17, 15};
    const analysis::Points points = analysis::points_of_grid(volume.box, extents);
    const RegionEvaluator evaluator(graph, {.gradients = false, .rounding = false, .symbols = 0});
    const SignField field(graph);
    analysis::place_cells(volume, *points);
    volume.cells->find_signs(evaluator, octree);
    analysis::CertifyOptions options;
    options.octree = octree;
    options.keep = [&](std::span<const PointSign> signs) { volume.add(signs); };
    analysis::certify(field, *points, options);
    const std::vector<double> before = volume.values;
    analysis::evaluate_unvalued(volume, *points, field, [] { return true; });
    for (const std::int64_t row : volume.unvalued)
      CHECK(std::fabs(volume.values[static_cast<std::size_t>(row)]) >=
            std::fabs(before[static_cast<std::size_t>(row)]));
    return volume;
  };
  OctreeOptions options;
  options.depth = 4;
  const Octree tree = Octree::build(graph, options);
  const analysis::Volume by_tree = image_of(&tree), plain = image_of(nullptr);
  CHECK(plain.unvalued.empty());
  CHECK(by_tree.unvalued.size() > 100);
  analysis::Volume again = by_tree;
  CHECK_THROWS_AS(analysis::evaluate_unvalued(again, *analysis::points_of_grid(again.box, extents), SignField(graph),
                                              [] { return false; }),
                  Interrupted);
  CHECK(by_tree.signs == plain.signs);
  for (std::size_t cell = 0; cell < plain.cells->size(); ++cell)
    if (plain.cells->signs()[cell] != 0) CHECK(by_tree.cells->signs()[cell] == plain.cells->signs()[cell]);
  // Corners of cells with another corner's sign have the same values, all others the same sign and less magnitude.
  const auto row_of = [](std::size_t i, std::size_t j, std::size_t k) { return (i * 17 + j) * 15 + k; };
  std::size_t less = 0;
  for (std::size_t i = 0; i < 17; ++i)
    for (std::size_t j = 0; j < 17; ++j)
      for (std::size_t k = 0; k < 15; ++k) {
        const double mine = by_tree.values[row_of(i, j, k)], value = plain.values[row_of(i, j, k)];
        CHECK((mine < 0.0) == (value < 0.0));
        const bool is_same = std::fabs(mine - value) <= 1e-6;
        CHECK((is_same || std::fabs(mine) < std::fabs(value)));
        less += is_same ? 0 : 1;
        for (const std::size_t other :
             {i + 1 < 17 ? row_of(i + 1, j, k) : row_of(i, j, k), j + 1 < 17 ? row_of(i, j + 1, k) : row_of(i, j, k),
              k + 1 < 15 ? row_of(i, j, k + 1) : row_of(i, j, k)})
          if (plain.signs[other] != plain.signs[row_of(i, j, k)]) CHECK(is_same);
      }
  CHECK(less > 1000);
}
