#include "driftbound/implicit/bounded_field.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

constexpr double smallest = std::numeric_limits<double>::min();

/// Of a point inside the domain, which lies `wall` < 0 outside of it.
double value_inside(double wall, const PointSign& found) {
  const double size = std::max(std::fabs(found.value), smallest);
  return std::max(wall, found.sign == Sign::negative ? -size : size);
}

}  // namespace

BoundedField::BoundedField(SignField field) : field_(std::move(field)) {
  const std::size_t d = field_.dimension();
  domain_ = field_.options().domain.value_or(Box{std::vector<double>(d, -1.0), std::vector<double>(d, 1.0)});
}

/// How far outside of the domain a point lies; inside, minus the distance from the nearest side.
double BoundedField::outside(const double* point, std::ptrdiff_t stride) const {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < domain_.lower.size(); ++c) {
    const double x = point[static_cast<std::ptrdiff_t>(c) * stride];
    largest = std::max({largest, domain_.lower[c] - x, x - domain_.upper[c]});
  }
  return largest;
}

double BoundedField::at(std::span<const double> point) const {
  if (point.size() != domain_.lower.size()) return field_.at(point).value;  // which refuses it
  const double wall = outside(point.data(), 1);
  return wall < 0.0 ? value_inside(wall, field_.at(point)) : std::max(wall, smallest);
}

void BoundedField::values(const double* points, std::int64_t rows, std::ptrdiff_t row_stride,
                          std::ptrdiff_t column_stride, std::span<double> out) const {
  if (rows < 0 || out.size() != static_cast<std::size_t>(rows))
    throw InvalidArgument("values: " + std::to_string(rows) + " points, but room for " + std::to_string(out.size()) +
                          " values");
  const std::size_t d = domain_.lower.size();
  std::vector<std::size_t> places;
  std::vector<double> inside;
  for (std::size_t row = 0; row < out.size(); ++row) {
    const double* const point = points + static_cast<std::ptrdiff_t>(row) * row_stride;
    out[row] = outside(point, column_stride);
    if (!(out[row] < 0.0)) {
      out[row] = std::max(out[row], smallest);
      continue;
    }
    places.push_back(row);
    for (std::size_t c = 0; c < d; ++c) inside.push_back(point[static_cast<std::ptrdiff_t>(c) * column_stride]);
  }
  std::vector<PointSign> found(places.size());
  field_.signs(inside.data(), static_cast<std::int64_t>(found.size()), static_cast<std::ptrdiff_t>(d), 1, found);
  for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = value_inside(out[places[i]], found[i]);
}

}  // namespace driftbound
