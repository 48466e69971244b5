#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"

namespace driftbound {

/// The solid {f < 0} within the field's domain, as a function that is negative inside of it and positive elsewhere: the
/// larger of f(x), near its exact value and with its certified sign, and of how far x lies outside of the domain, negative
/// inside. So the solid is bounded, and its surface is closed, also where the network's surface leaves the domain; and
/// the network is not asked outside of the domain, nor on its border. Points with f = 0, and undecided ones, are outside.
/// A cheap handle. const methods may be called by several threads at a time.
/// Guarantee: the sign is that of the solid of the exact network (docs/theory.md T-110)
class BoundedField {
public:
  explicit BoundedField(SignField field);

  const SignField& field() const { return field_; }
  /// The field's: [-1, 1] in every coordinate where it names none.
  const Box& domain() const { return domain_; }

  /// Throws:    as SignField::at()
  double at(std::span<const double> point) const;
  /// The same of `rows` points: coordinate c of point r is points[r row_stride + c column_stride].
  /// Shapes:    `out` has `rows` elements
  /// Throws:    as SignField::signs(), numbering the points inside of the domain; InvalidArgument for another size of `out`
  void values(const double* points, std::int64_t rows, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
              std::span<double> out) const;

private:
  double outside(const double* point, std::ptrdiff_t stride) const;
  SignField field_;
  Box domain_;
};

}  // namespace driftbound
