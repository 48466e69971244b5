#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"

// Header-only: the library itself never includes Eigen.
namespace driftbound::eigen {

/// Points one a row, as they lie in memory: matrices, maps, blocks and transposes, row- or column-major, of float or
/// double, are not copied; other expressions are evaluated.
template <class Derived>
using PointRows =
    Eigen::Ref<const Eigen::Matrix<typename Derived::Scalar, Eigen::Dynamic, Eigen::Dynamic,
                                   static_cast<bool>(Derived::IsRowMajor) ? Eigen::RowMajor : Eigen::ColMajor>,
               Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

/// Signs, values and bounds of the field at every row.
/// Shapes:    points: n x field.dimension(); out: n
/// Guarantee, Throws: as SignField::signs; InvalidArgument also for rows of another size
template <class Derived>
SignStatistics signs(const SignField& field, const Eigen::MatrixBase<Derived>& points, std::span<PointSign> out) {
  static_assert(std::is_same_v<typename Derived::Scalar, float> || std::is_same_v<typename Derived::Scalar, double>,
                "points have coordinates in float or double");
  if (static_cast<std::size_t>(points.cols()) != field.dimension())
    throw InvalidArgument("signs: points are rows of " + std::to_string(field.dimension()) +
                          " coordinates, these have " + std::to_string(points.cols()) + "; transpose them?");
  const PointRows<Derived> rows(points.derived());
  return field.signs(rows.data(), rows.rows(), rows.rowStride(), rows.colStride(), out);
}

/// -1, 0 (proven zero), 1, or 2 (undecided) for every row.
template <class Derived>
Eigen::Matrix<std::int8_t, Eigen::Dynamic, 1> signs(const SignField& field, const Eigen::MatrixBase<Derived>& points) {
  std::vector<PointSign> found(static_cast<std::size_t>(points.rows()));
  signs(field, points, found);
  Eigen::Matrix<std::int8_t, Eigen::Dynamic, 1> numbers(points.rows());
  for (Eigen::Index row = 0; row < points.rows(); ++row)
    numbers[row] = static_cast<std::int8_t>(found[static_cast<std::size_t>(row)].sign);
  return numbers;
}

/// Values for codes that compare with 0 and interpolate (marching cubes): near the exact ones, with their certified
/// signs; 0 is a proven zero, NaN undecided.
template <class Derived>
Eigen::VectorXd values(const SignField& field, const Eigen::MatrixBase<Derived>& points) {
  std::vector<PointSign> found(static_cast<std::size_t>(points.rows()));
  signs(field, points, found);
  Eigen::VectorXd numbers(points.rows());
  for (Eigen::Index row = 0; row < points.rows(); ++row) {
    const PointSign& point = found[static_cast<std::size_t>(row)];
    const double size = std::fmax(std::fabs(point.value), std::numeric_limits<double>::min());
    numbers[row] = point.sign == Sign::undecided ? std::numeric_limits<double>::quiet_NaN()
                                                 : static_cast<double>(static_cast<int>(point.sign)) * size;
  }
  return numbers;
}

}  // namespace driftbound::eigen
