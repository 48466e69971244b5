#pragma once

#include <CGAL/Uncertain.h>
#include <CGAL/enum.h>
#include <CGAL/number_utils.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "driftbound/implicit/bounded_field.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"

// Header-only: the library itself never includes CGAL. This header needs CGAL's kernels alone, which are LGPL; CGAL's
// meshers are GPL, and so is a program that calls them.
namespace driftbound::cgal {

/// The sign of the exact network at a point as CGAL's filters take it: one sign, or, where it is undecided, all of them.
/// Guarantee, Throws: as SignField::at
template <class Point>
CGAL::Uncertain<CGAL::Sign> sign(const SignField& field, const Point& point) {
  const std::array<double, 3> x = {CGAL::to_double(point.x()), CGAL::to_double(point.y()), CGAL::to_double(point.z())};
  const Sign sign = field.at(x).sign;
  if (sign == Sign::undecided) return CGAL::Uncertain<CGAL::Sign>::indeterminate();
  return static_cast<CGAL::Sign>(static_cast<int>(sign));
}

/// What CGAL's meshers call: the solid {f < 0} within the field's domain, as BoundedField has it, negative inside of it
/// and positive elsewhere. Copies are cheap, calls may come from several threads.
/// Guarantee: the sign is that of the solid of the exact network (docs/theory.md T-110)
/// Throws:    as SignField::at
template <class Kernel>
class BoundedSolid {
public:
  using FT = typename Kernel::FT;
  using Point_3 = typename Kernel::Point_3;
  using Iso_cuboid_3 = typename Kernel::Iso_cuboid_3;
  using Sphere_3 = typename Kernel::Sphere_3;
  using result_type = FT;
  using argument_type = Point_3;
  using return_type = FT;
  using Point = Point_3;

  /// Throws:    InvalidArgument for a network of another number of coordinates than three
  explicit BoundedSolid(SignField field) : solid_(std::move(field)) {
    if (solid_.field().dimension() != 3)
      throw InvalidArgument("BoundedSolid: CGAL's meshers need a network of three coordinates");
  }

  FT operator()(const Point_3& point) const {
    const std::array<double, 3> x = {CGAL::to_double(point.x()), CGAL::to_double(point.y()),
                                     CGAL::to_double(point.z())};
    return FT(solid_.at(x));
  }

  /// For make_mesh_3: a box around the solid that no part of its surface touches.
  Iso_cuboid_3 bounding_object() const {
    const double gap = margin();
    const auto& [lower, upper] = solid_.domain();
    return Iso_cuboid_3(Point_3(lower[0] - gap, lower[1] - gap, lower[2] - gap),
                        Point_3(upper[0] + gap, upper[1] + gap, upper[2] + gap));
  }

  /// For Implicit_surface_3: a sphere around the solid whose centre is a point inside of it, the first one on grids of
  /// 4, 8, … 128 cells a side.
  /// Throws:    InvalidArgument where there is none
  Sphere_3 bounding_sphere() const {
    const std::array<double, 3> centre = point_inside();
    double square = 0.0;
    for (std::size_t c = 0; c < 3; ++c) {
      const double reach =
          std::max(solid_.domain().upper[c] - centre[c], centre[c] - solid_.domain().lower[c]) + margin();
      square += reach * reach;
    }
    return Sphere_3(Point_3(centre[0], centre[1], centre[2]), FT(square));
  }

private:
  double margin() const {
    double longest = 0.0;
    for (std::size_t c = 0; c < 3; ++c)
      longest = std::max(longest, solid_.domain().upper[c] - solid_.domain().lower[c]);
    return longest / 16;
  }

  std::array<double, 3> point_inside() const {
    for (int cells = 4; cells <= 128; cells *= 2) {
      std::vector<double> points;
      for (int i = 1; i < cells; ++i)
        for (int j = 1; j < cells; ++j)
          for (int k = 1; k < cells; ++k)
            for (const auto& [c, step] : {std::pair{0, i}, std::pair{1, j}, std::pair{2, k}}) {
              const auto axis = static_cast<std::size_t>(c);
              points.push_back(solid_.domain().lower[axis] +
                               (solid_.domain().upper[axis] - solid_.domain().lower[axis]) * step / cells);
            }
      std::vector<PointSign> signs(points.size() / 3);
      solid_.field().signs(points.data(), static_cast<std::int64_t>(signs.size()), 3, 1, signs);
      const auto inside =
          std::find_if(signs.begin(), signs.end(), [](const PointSign& s) { return s.sign == Sign::negative; });
      if (inside == signs.end()) continue;
      const auto row = static_cast<std::size_t>(inside - signs.begin());
      return {points[3 * row], points[3 * row + 1], points[3 * row + 2]};
    }
    throw InvalidArgument("BoundedSolid: no point of a grid of 128 cells a side lies inside of the solid");
  }

  BoundedField solid_;
};

}  // namespace driftbound::cgal
