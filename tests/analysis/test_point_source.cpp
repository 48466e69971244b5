#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analysis/point_source.hpp"
#include "driftbound/num/errors.hpp"
#include "implicit/implicit_networks.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::analysis;
using driftbound::test::npy_of;
using driftbound::test::TemporaryFolder;
using implicit_networks::bundled;
using implicit_networks::octahedron;

namespace {

std::vector<double> read(const PointSource& points, std::int64_t first, std::int64_t count, std::size_t dimension) {
  std::vector<double> out(static_cast<std::size_t>(count) * dimension);
  points.read(first, count, out);
  return out;
}

std::vector<double> all(const PointSource& points, std::size_t dimension) {
  return read(points, 0, points.size(), dimension);
}

}  // namespace

TEST_CASE("a grid has its corners, its steps, and its last coordinate running fastest") {
  const auto grid = points_of_grid({{-1, 0, 5}, {1, 0.3, 5}}, {3, 4, 1});
  CHECK(grid->size() == 12);
  const std::vector<double> points = all(*grid, 3);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t at = 3 * (4 * i + j);
      CHECK(points[at] == static_cast<double>(i) - 1.0);
      CHECK(points[at + 1] == (j == 3 ? 0.3 : static_cast<double>(j) * (0.3 / 3.0)));
      CHECK(points[at + 2] == 5);
    }
  CHECK(grid->description() == "a grid of 3x4x1 in -1:1,0:0.3,5:5");
  CHECK(grid->sha256() != points_of_grid({{-1, 0, 5}, {1, 0.3, 5}}, {4, 3, 1})->sha256());
  CHECK(read(*points_of_grid({{0}, {1}}, {10001}), 4096, 2, 1) == std::vector<double>{4096 * 1e-4, 4097 * 1e-4});
  CHECK_THROWS_AS(points_of_grid({{0, 0}, {1, 1}}, {3}), InvalidArgument);
  CHECK_THROWS_AS(points_of_grid({{0, 0}, {1, 1}}, {3, 0}), InvalidArgument);
  CHECK_THROWS_AS(points_of_grid({{0, 0}, {1, 1}}, {1 << 30, 1 << 30}), InvalidArgument);
}

TEST_CASE("a segment goes from its first end to its second") {
  const auto segment = points_of_segment({1, 0}, {0, 0.5}, 5);
  CHECK(all(*segment, 2) == std::vector<double>{1, 0, 0.75, 0.125, 0.5, 0.25, 0.25, 0.375, 0, 0.5});
  CHECK(segment->range().lower == std::vector<double>{0, 0});
  CHECK(segment->range().upper == std::vector<double>{1, 0.5});
  const auto longest = points_of_segment({-1.5e308}, {1.5e308}, 5);
  CHECK(all(*longest, 1) == std::vector<double>{-1.5e308, -0.75e308, 0, 0.75e308, 1.5e308});
  CHECK_THROWS_AS(points_of_segment({1, 0}, {1, 0}, 5), InvalidArgument);
  CHECK_THROWS_AS(points_of_segment({1, 0}, {1}, 5), InvalidArgument);
  CHECK_THROWS_AS(points_of_segment({1}, {0}, 5), InvalidArgument);
  CHECK_THROWS_AS(points_of_segment({1, 0}, {1, 1}, 1), InvalidArgument);
  CHECK_THROWS_AS(points_of_segment({1, std::nan("")}, {1, 1}, 5), InvalidArgument);
}

TEST_CASE("a box repeats its last range, and is finite and not reversed") {
  const Box box = box_of({{-1, 1}, {0, 2}}, 3);
  CHECK(box.lower == std::vector<double>{-1, 0, 0});
  CHECK(box.upper == std::vector<double>{1, 2, 2});
  CHECK_THROWS_AS(box_of({{1, -1}}, 3), InvalidArgument);
  CHECK_THROWS_AS(box_of({{0, 1}, {0, 1}}, 1), InvalidArgument);
}

TEST_CASE("points of a file are taken as they are, whatever the file") {
  const TemporaryFolder folder;
  const Graph graph = octahedron();
  std::vector<double> points;
  for (int i = 0; i < 3 * 9000; ++i) points.push_back(std::sin(i));
  const auto npy = points_of_file(graph, folder.write("p.npy", npy_of("<f8", {9000, 3}, points)));
  CHECK(npy->size() == 9000);
  CHECK(all(*npy, 3) == points);
  CHECK(read(*npy, 4096, 2, 3) == std::vector<double>(points.begin() + 3 * 4096, points.begin() + 3 * 4098));
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(npy->range().lower[c] < -0.99);
    CHECK(npy->range().lower[c] >= -1.0);
    CHECK(npy->range().upper[c] > 0.99);
  }
  const auto csv = points_of_file(graph, folder.write("p.csv", "x,y,z\n0.1,0.2,0x1.8p-3\n1,2,3\n"));
  CHECK(all(*csv, 3) == std::vector<double>{0.1, 0.2, 0.1875, 1, 2, 3});

  const std::string hash = npy->sha256();
  CHECK(hash == points_of_file(graph, folder.path() / "p.npy")->sha256());
  points[26999] = 0.5;
  CHECK(hash != points_of_file(graph, folder.write("p.npy", npy_of("<f8", {9000, 3}, points)))->sha256());
}

TEST_CASE("a bad point of a file is named by file, place and number") {
  const TemporaryFolder folder;
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1e39}) {
    std::vector<double> points(3 * 9000, 0.5);
    points[3 * 8000 + 1] = bad;
    const auto source = points_of_file(octahedron(), folder.write("p.npy", npy_of("<f8", {9000, 3}, points)));
    read(*source, 0, 8000, 3);
    try {
      read(*source, 4096, 4904, 3);
      FAIL("not refused");
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      CHECK(text.find("p.npy: coordinate 1 of point 8000 is ") != std::string::npos);
    }
  }
  const std::string two = npy_of<double>("<f8", {2, 2}, {1, 2, 3, 4});
  CHECK_THROWS_AS(points_of_file(octahedron(), folder.write("two.npy", two)), ShapeMismatch);
  CHECK_THROWS_AS(points_of_file(octahedron(), folder.write("none.npy", npy_of<double>("<f8", {0, 3}, {}))),
                  InvalidArgument);
}

TEST_CASE("points of a band are certainly within it, random, and the same for every number and order of reading") {
  const SignField field(bundled("sphere_cut_sdf_relu"));
  const Box box = box_of({{-1, 1}}, 3);
  for (const double width : {1e-2, 1e-6}) {
    CAPTURE(width);
    const auto band = points_of_band(field, box, {width, 4100, 7});
    const std::vector<double> points = all(*band, 3);
    std::size_t positive = 0;
    double mean = 0.0;
    for (std::size_t row = 0; row < 100; ++row) {
      const auto point = std::span<const double>(points).subspan(3 * row, 3);
      const auto exact = implicit_networks::exact_scalar<oracle::Dyadic>(field.graph(), field.target(), 0.0, point);
      CHECK(oracle::sign(exact - oracle::Dyadic(width)) <= 0);
      CHECK(oracle::sign(exact + oracle::Dyadic(width)) >= 0);
      if (oracle::sign(exact) > 0) ++positive;
      mean += point[0] / 100;
    }
    CHECK(positive > 10);
    CHECK(positive < 90);
    CHECK(std::fabs(mean) < 0.3);
    CHECK(read(*band, 4096, 4, 3) == std::vector<double>(points.begin() + 3 * 4096, points.end()));
    CHECK(all(*points_of_band(field, box, {width, 100, 7}), 3) ==
          std::vector<double>(points.begin(), points.begin() + 300));
    CHECK(all(*points_of_band(field, box, {width, 100, 8}), 3) !=
          std::vector<double>(points.begin(), points.begin() + 300));
  }
}

TEST_CASE("a band of no width is bisected onto the surface as far as doubles go") {
  const SignField field(bundled("torus_sdf_softplus"));
  const std::vector<double> points = all(*points_of_band(field, box_of({{-1, 1}}, 3), {0.0, 20, 1}), 3);
  std::vector<PointSign> signs(20);
  field.signs(points.data(), 20, 3, 1, signs);
  for (const PointSign& sign : signs) CHECK(std::fabs(sign.value) < 1e-15);
}

TEST_CASE("a band without a surface, and one without width or points, is refused") {
  SignOptions options;
  options.iso = 10.0;
  const SignField field(octahedron(), options);
  const auto band = points_of_band(field, box_of({{-1, 1}}, 3), {1e-3, 10, 1});
  std::vector<double> out(30);
  CHECK_THROWS_WITH_AS(band->read(0, 10, out), doctest::Contains("no surface found: none of 262144"), InvalidArgument);
  CHECK_THROWS_AS(points_of_band(field, box_of({{-1, 1}}, 3), {-1.0, 10, 1}), InvalidArgument);
  CHECK_THROWS_AS(points_of_band(field, box_of({{-1, 1}}, 3), {std::nan(""), 10, 1}), InvalidArgument);
  CHECK_THROWS_AS(points_of_band(field, box_of({{-1, 1}}, 3), {1.0, 0, 1}), InvalidArgument);
}
