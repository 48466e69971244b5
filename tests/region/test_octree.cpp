#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/octree.hpp"
#include "implicit/implicit_networks.hpp"
#include "region_checks.hpp"
#include "support/approach.hpp"
#include "support/sign_points.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using driftbound::test::TemporaryFolder;
using implicit_networks::bundled;
using implicit_networks::octahedron;
using region_checks::depth_of;

namespace {

std::vector<OctreeCell> cells_of(const Octree& tree) {
  std::vector<OctreeCell> cells;
  tree.each_cell([&](const OctreeCell& cell) { cells.push_back(cell); });
  return cells;
}

bool are_same(const Octree& a, const Octree& b) {
  const std::vector<OctreeCell> of_a = cells_of(a), of_b = cells_of(b);
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (of_a[i].box.lower != of_b[i].box.lower || of_a[i].box.upper != of_b[i].box.upper ||
        of_a[i].sign != of_b[i].sign || of_a[i].rounding != of_b[i].rounding || of_a[i].least != of_b[i].least)
      return false;
  return true;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("cells of a tree fill the domain, and certain ones have the sign of the exact network") {
  for (const char* name : {"sphere_cut_sdf_relu", "torus_sdf_softplus"}) {
    CAPTURE(name);
    const Graph graph = bundled(name);
    const Octree tree = Octree::build(graph, depth_of(5));
    std::mt19937_64 generator(4);
    double volume = 0.0, certain = 0.0;
    std::size_t tried = 0;
    for (const OctreeCell& cell : cells_of(tree)) {
      double part = 1.0;
      for (std::size_t j = 0; j < 3; ++j) part *= (cell.box.upper[j] - cell.box.lower[j]) / 2.0;
      volume += part;
      if (cell.sign == RegionSign::unknown) {
        CHECK(cell.depth == 5);
        continue;
      }
      certain += part;
      if (generator() % 64 != 0) continue;
      const std::vector<double> point = region_checks::point_in(cell.box, tried++ % 16, generator);
      const auto exact = implicit_networks::exact_scalar<region_checks::Real>(graph, {}, 0.0, point);
      const bool is_right = (cell.sign == RegionSign::all_positive) == (exact > 0) && exact != 0;
      CHECK(is_right);
    }
    CHECK(volume == 1.0);
    CHECK(tree.counts().certain_share == certain);
    CHECK(certain > 0.8);
    CHECK(tried > 50);
  }
}

TEST_CASE("a tree is the same with 1 and 3 threads, in one go and continued, and when it was saved in between") {
  const Graph graph = bundled("sphere_cut_sdf_relu");
  OctreeOptions options = depth_of(5);
  const Octree whole = Octree::build(graph, options);
  options.threads = 3;
  CHECK(are_same(whole, Octree::build(graph, options)));
  CHECK(are_same(whole, Octree::build(graph, depth_of(2)).refined(depth_of(5))));
  int looks = 0;
  options.progress = [&](std::int64_t, double) { return ++looks < 4; };
  const Octree part = Octree::build(graph, options);
  options.progress = {};
  CHECK_FALSE(part.is_complete(options));
  const TemporaryFolder folder;
  part.save(folder.path() / "part.oct");
  const Octree continued = Octree::load(folder.path() / "part.oct", graph).refined(options);
  CHECK(continued.is_complete(options));
  CHECK(are_same(whole, continued));
  continued.save(folder.path() / "whole.oct");
  whole.save(folder.path() / "at_once.oct");
  CHECK(bytes_of(folder.path() / "whole.oct") == bytes_of(folder.path() / "at_once.oct"));
  options.certain_share = 0.9;
  const Octree enough = Octree::build(graph, options);
  CHECK(enough.counts().certain_share < whole.counts().certain_share + 1e-12);
}

TEST_CASE("a saved tree of another network, iso value, or damaged anywhere, is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "tree.oct";
  const Graph graph = octahedron();
  Octree::build(graph, depth_of(3)).save(file);
  CHECK(Octree::load(file, graph).counts().cells > 100);
  CHECK_THROWS_AS(Octree::load(file, graph, 0.25), InvalidArgument);
  CHECK_THROWS_AS(Octree::load(file, bundled("torus_sdf_softplus")), InvalidArgument);
  CHECK_THROWS_AS(Octree::load(folder.path() / "none.oct", graph), FileError);
  CHECK_THROWS_AS(Octree::load(folder.path(), graph), FileError);
  const std::string bytes = bytes_of(file);
  for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 200) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    write(folder.path() / "damaged.oct", damaged);
    CHECK_THROWS_AS(Octree::load(folder.path() / "damaged.oct", graph), ParseError);
    write(folder.path() / "damaged.oct", bytes.substr(0, i));
    CHECK_THROWS_AS(Octree::load(folder.path() / "damaged.oct", graph), ParseError);
  }
}

TEST_CASE("a box has a sign where certain cells cover it, borders of other cells left aside") {
  const Graph graph = octahedron();
  const Octree tree = Octree::build(graph, depth_of(5));
  std::size_t known = 0, alone = 0;
  const std::vector<OctreeCell> cells = cells_of(tree);
  for (const OctreeCell& cell : cells) {
    CHECK(tree.sign_over(cell.box) == cell.sign);
    for (const std::vector<double>& corner : {cell.box.lower, cell.box.upper}) {
      const RegionSign sign = tree.sign_over({corner, corner});
      if (sign == RegionSign::unknown) continue;
      ++alone;
      CHECK(static_cast<int>(tree.cell_at(corner)->sign) * static_cast<int>(sign) >= 0);
    }
  }
  CHECK(alone > 1000);
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (int i = 0; i < 2000; ++i) {
    Box box{{}, {}};
    for (int j = 0; j < 3; ++j) {
      const double a = uniform(generator), b = std::clamp(a + 0.2 * uniform(generator), -1.0, 1.0);
      box.lower.push_back(std::min(a, b));
      box.upper.push_back(std::max(a, b));
    }
    RegionSign expected = RegionSign::unknown;
    bool is_first = true;
    for (const OctreeCell& cell : cells) {
      bool meets = true;
      for (std::size_t j = 0; j < 3; ++j)
        meets = meets && cell.box.lower[j] < box.upper[j] && cell.box.upper[j] > box.lower[j];
      if (!meets) continue;
      expected = is_first || cell.sign == expected ? cell.sign : RegionSign::unknown;
      is_first = false;
      if (expected == RegionSign::unknown) break;
    }
    CHECK(tree.sign_over(box) == expected);
    known += expected == RegionSign::unknown ? 0 : 1;
  }
  CHECK(known > 200);
  CHECK(known < 1900);
  CHECK(tree.sign_over({{0.9, 0.9, 0.9}, {0.9, 0.9, 1.5}}) == RegionSign::unknown);
  CHECK(tree.sign_over({{0.9, 0.9, 0.9}, {0.9, 0.9, 1.0}}) == RegionSign::all_positive);
  CHECK_THROWS_AS(tree.sign_over({{0.0, 0.0}, {1.0, 1.0}}), InvalidArgument);
  CHECK_THROWS_AS(tree.sign_over({{0.0, 0.0, 1.0}, {1.0, 1.0, 0.5}}), InvalidArgument);
}

TEST_CASE("points in certain cells have their sign without evaluation, all others that of the field") {
  const Graph graph = bundled("sphere_cut_sdf_relu");
  const Octree tree = Octree::build(graph, depth_of(6));
  const SignField field(graph);
  constexpr std::int64_t rows = 20'000;
  std::vector<double> points = sign_points::uniform(rows, 3, 8);
  for (std::size_t i = 0; i < points.size() / 2; ++i) points[i] = static_cast<double>(static_cast<float>(points[i]));
  for (std::size_t j = 0; j < 3; ++j) points[j] = 1.5;  // outside
  std::vector<PointSign> signs(rows);
  const SignStatistics counts = tree.signs(field, points.data(), rows, 3, 1, signs);
  const std::vector<PointSign> expected = sign_points::signs_of(field, points);
  for (std::size_t i = 0; i < signs.size(); ++i) {
    CHECK(signs[i].sign == expected[i].sign);
    if (signs[i].stage == SignStage::given && !std::isfinite(signs[i].bound)) {
      CHECK(std::fabs(signs[i].value) <= std::fabs(expected[i].value) + expected[i].bound);
      CHECK((signs[i].value < 0.0) == (signs[i].sign == Sign::negative));
    }
  }
  CHECK(counts.points == rows);
  CHECK(counts.negative + counts.positive + counts.zero + counts.undecided == rows);
  CHECK(counts.stages[static_cast<std::size_t>(SignStage::given)].decided > rows * 9 / 10);
  SignOptions other;
  other.iso = 0.5;
  CHECK_THROWS_AS(tree.signs(SignField(graph, other), points.data(), rows, 3, 1, signs), InvalidArgument);
}

namespace {

/// The distance from a point to the surface |x| + |y| + |z| = 1, within [-1, 1]^3.
double distance_to_octahedron(const std::vector<double>& p) {
  double size = 0.0;
  for (const double x : p) size += std::fabs(x);
  if (size <= 1.0) return (1.0 - size) / std::sqrt(3.0);
  // Outside: the nearest point of the simplex of magnitudes.
  std::vector<double> magnitudes;
  for (const double x : p) magnitudes.push_back(std::fabs(x));
  std::sort(magnitudes.rbegin(), magnitudes.rend());
  double sum = 0.0, excess = 0.0;
  for (std::size_t k = 0; k < magnitudes.size(); ++k) {
    sum += magnitudes[k];
    const double shift = (sum - 1.0) / static_cast<double>(k + 1);
    if (magnitudes[k] > shift) excess = shift;
  }
  double squares = 0.0;
  for (const double x : magnitudes) squares += std::pow(x - std::max(x - excess, 0.0), 2);
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("safe steps are never longer than the way to the surface, and come near it") {
  const Graph graph = octahedron();
  const Octree tree = Octree::build(graph, depth_of(5));
  const SignField field(graph);
  double closest = 0.0;
  const std::vector<double> points = sign_points::uniform(2'000, 3, 21);
  for (std::size_t i = 0; i < points.size(); i += 3) {
    const std::vector<double> point(points.begin() + static_cast<std::ptrdiff_t>(i),
                                    points.begin() + static_cast<std::ptrdiff_t>(i + 3));
    const double distance = distance_to_octahedron(point), step = tree.safe_step(field, point);
    CHECK(step <= distance * (1.0 + 1e-12));
    CHECK(tree.safe_step(point) <= step);
    closest = std::max(closest, step / distance);
  }
  CHECK_APPROACH("T-154", closest, 0.99);
  CHECK_THROWS_AS(tree.safe_step(std::vector<double>{0.0, 0.0, 1.5}), InvalidArgument);
}

TEST_CASE("an octree asks for options and networks that make sense") {
  const Graph graph = octahedron();
  CHECK_THROWS_AS(Octree::build(graph, depth_of(-1)), InvalidArgument);
  CHECK_THROWS_AS(Octree::build(graph, depth_of(21)), InvalidArgument);
  OctreeOptions options;
  options.certain_share = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(Octree::build(graph, options), InvalidArgument);
  options = {};
  options.domain = Box{{0.0, 0.0, 1.0}, {1.0, 1.0, 0.0}};
  CHECK_THROWS_AS(Octree::build(graph, options), InvalidArgument);
  options.domain = Box{{0.0, 0.0}, {1.0, 1.0}};
  CHECK_THROWS_AS(Octree::build(graph, options), InvalidArgument);
  options = {};
  options.iso = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(Octree::build(graph, options), InvalidArgument);
}
