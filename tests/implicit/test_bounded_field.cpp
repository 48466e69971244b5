#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "driftbound/implicit/bounded_field.hpp"
#include "driftbound/num/errors.hpp"
#include "implicit/implicit_networks.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using implicit_networks::octahedron;

namespace {

SignField field_in(double side) {
  SignOptions options;
  options.domain = Box{{-side, -side, -side}, {side, side, side}};
  return SignField(octahedron(), options);
}

}  // namespace

TEST_CASE("a solid is negative where the field is, inside of the domain alone, point by point and in batches") {
  const BoundedField solid(field_in(0.75));
  CHECK(solid.domain().upper == std::vector<double>{0.75, 0.75, 0.75});
  std::vector<double> points = sign_points::uniform(3000, 3, 3);
  for (std::size_t i = 0; i < 300; i += 3) points[i + i / 3 % 3] = i % 2 == 0 ? 0.75 : -0.75;
  const std::size_t rows = points.size() / 3;
  std::vector<double> values(rows), by_columns(rows), turned(points.size());
  solid.values(points.data(), static_cast<std::int64_t>(rows), 3, 1, values);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t c = 0; c < 3; ++c) turned[c * rows + i] = points[3 * i + c];
  solid.values(turned.data(), static_cast<std::int64_t>(rows), 1, static_cast<std::ptrdiff_t>(rows), by_columns);
  CHECK(by_columns == values);
  std::size_t inside = 0, at_wall = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const double* const x = points.data() + 3 * i;
    const double wall = std::max({std::fabs(x[0]), std::fabs(x[1]), std::fabs(x[2])}) - 0.75;
    const double exact = std::fabs(x[0]) + std::fabs(x[1]) + std::fabs(x[2]) - 1.0;
    const double expected = wall < 0.0 ? std::max(wall, exact) : wall;
    CHECK((values[i] < 0.0) == (wall < 0.0 && exact < 0.0));
    CHECK(values[i] != 0.0);
    CHECK(std::fabs(values[i] - expected) < 1e-12);
    CHECK(std::fabs(solid.at({x, 3}) - values[i]) < 1e-12);
    inside += values[i] < 0.0 ? std::size_t{1} : std::size_t{0};
    at_wall += wall == 0.0 ? std::size_t{1} : std::size_t{0};
  }
  CHECK(inside > 100);
  CHECK(at_wall > 20);
}

TEST_CASE("a solid without a domain of its own ends at 1, and refuses what its field refuses") {
  const BoundedField solid{SignField(octahedron())};
  CHECK(solid.at(std::vector<double>{0.0, 0.0, 1.0}) == std::numeric_limits<double>::min());
  CHECK(solid.at(std::vector<double>{0.0, 0.0, 3.0}) == 2.0);
  CHECK(solid.at(std::vector<double>{0.0, 0.0, 0.0}) == -1.0);
  CHECK(solid.at(std::vector<double>{0.5, 0.25, 0.25}) > 0.0);  // on the surface
  CHECK_THROWS_AS(solid.at(std::vector<double>{0.0, 0.0}), InvalidArgument);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(solid.at(std::vector<double>{nan, 0.0, 0.0}), InvalidArgument);
  const std::vector<double> points = {nan, nan, nan};
  std::vector<double> values(1), two(2);
  CHECK_THROWS_AS(solid.values(points.data(), 1, 3, 1, values), InvalidArgument);
  CHECK_THROWS_AS(solid.values(points.data(), 1, 3, 1, two), InvalidArgument);
}
