#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "driftbound/implicit/bounded_field.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/octree.hpp"

// Header-only: the library itself never includes Eigen.
namespace driftbound::eigen {

/// Points one a row, as they lie in memory: matrices, maps, blocks and transposes, row- or column-major, of float or
/// double, are not copied; other expressions are evaluated.
template <class Derived>
using PointRows =
    Eigen::Ref<const Eigen::Matrix<typename Derived::Scalar, Eigen::Dynamic, Eigen::Dynamic,
                                   static_cast<bool>(Derived::IsRowMajor) ? Eigen::RowMajor : Eigen::ColMajor>,
               Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

/// Throws:    InvalidArgument for rows of another size than the field's points
template <class Derived>
void check_rows(const SignField& field, const Eigen::MatrixBase<Derived>& points) {
  static_assert(std::is_same_v<typename Derived::Scalar, float> || std::is_same_v<typename Derived::Scalar, double>,
                "points have coordinates in float or double");
  if (static_cast<std::size_t>(points.cols()) != field.dimension())
    throw InvalidArgument("signs: points are rows of " + std::to_string(field.dimension()) +
                          " coordinates, these have " + std::to_string(points.cols()) + "; transpose them?");
}

/// Signs, values and bounds of the field at every row. With a tree of the same network, target and iso value, points in
/// its certain cells are not evaluated: their values are as large as the tree knows |f| to be at least.
/// Shapes:    points: n x field.dimension(); out: n
/// Guarantee, Throws: as SignField::signs, Octree::signs; InvalidArgument also for rows of another size
template <class Derived>
SignStatistics signs(const SignField& field, const Eigen::MatrixBase<Derived>& points, std::span<PointSign> out,
                     const Octree* octree = nullptr) {
  check_rows(field, points);
  if (octree != nullptr) {
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const RowMajor rows = points.template cast<double>();
    return octree->signs(field, rows.data(), rows.rows(), rows.cols(), 1, out);
  }
  const PointRows<Derived> rows(points.derived());
  return field.signs(rows.data(), rows.rows(), rows.rowStride(), rows.colStride(), out);
}

/// -1, 0 (proven zero), 1, or 2 (undecided) for every row.
template <class Derived>
Eigen::Matrix<std::int8_t, Eigen::Dynamic, 1> signs(const SignField& field, const Eigen::MatrixBase<Derived>& points,
                                                    const Octree* octree = nullptr) {
  std::vector<PointSign> found(static_cast<std::size_t>(points.rows()));
  signs(field, points, found, octree);
  Eigen::Matrix<std::int8_t, Eigen::Dynamic, 1> numbers(points.rows());
  for (Eigen::Index row = 0; row < points.rows(); ++row)
    numbers[row] = static_cast<std::int8_t>(found[static_cast<std::size_t>(row)].sign);
  return numbers;
}

/// Values for codes that compare with 0 and interpolate (marching cubes): near the exact ones, with their certified
/// signs; 0 is a proven zero, NaN undecided. With a tree, see signs(): values in its certain cells are only so large as
/// to have the right sign.
template <class Derived>
Eigen::VectorXd values(const SignField& field, const Eigen::MatrixBase<Derived>& points,
                       const Octree* octree = nullptr) {
  std::vector<PointSign> found(static_cast<std::size_t>(points.rows()));
  signs(field, points, found, octree);
  Eigen::VectorXd numbers(points.rows());
  for (Eigen::Index row = 0; row < points.rows(); ++row)
    numbers[row] = signed_value(found[static_cast<std::size_t>(row)]);
  return numbers;
}

/// The same of the solid within the field's domain: positive on the domain's border and outside, so that the surface
/// between points is closed.
/// Guarantee, Throws: as BoundedField::values; InvalidArgument also for rows of another size
template <class Derived>
Eigen::VectorXd values(const BoundedField& solid, const Eigen::MatrixBase<Derived>& points) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  check_rows(solid.field(), points);
  const RowMajor rows = points.template cast<double>();
  Eigen::VectorXd numbers(rows.rows());
  solid.values(rows.data(), rows.rows(), rows.cols(), 1, {numbers.data(), static_cast<std::size_t>(numbers.size())});
  return numbers;
}

}  // namespace driftbound::eigen
