#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "driftbound/region/octree.hpp"
#include "driftbound/region/range.hpp"
#include "implicit/implicit_networks.hpp"

/// Boxes, points in them, and what the exact function does there.
namespace region_checks {

using namespace driftbound;
using Real = oracle::Real400;

inline OctreeOptions depth_of(int depth) {
  OctreeOptions options;
  options.depth = depth;
  return options;
}

inline double uniform(std::mt19937_64& generator) {
  return std::ldexp(static_cast<double>(generator() >> 11U), -53);
}

/// A box with float32 bounds around a point of [-1, 1]^d.
inline Box random_box(std::size_t dimension, double half, std::mt19937_64& generator) {
  Box box;
  for (std::size_t j = 0; j < dimension; ++j) {
    const double middle = 2.0 * uniform(generator) - 1.0, side = half * (0.5 + uniform(generator));
    box.lower.push_back(static_cast<float>(middle - side));
    box.upper.push_back(std::max(static_cast<double>(static_cast<float>(middle + side)), box.lower.back()));
  }
  return box;
}

/// A float32 point of the box: one of its corners for the first ones.
inline std::vector<double> point_in(const Box& box, std::size_t number, std::mt19937_64& generator) {
  std::vector<double> point;
  for (std::size_t j = 0; j < box.lower.size(); ++j) {
    const bool is_corner = number < (std::size_t{1} << box.lower.size());
    const double share = is_corner ? static_cast<double>(number >> j & 1U) : uniform(generator);
    const auto at = static_cast<double>(static_cast<float>(box.lower[j] + share * (box.upper[j] - box.lower[j])));
    point.push_back(std::min(std::max(at, box.lower[j]), box.upper[j]));
  }
  return point;
}

/// f at a point, with 400 digits.
inline Real exact(const RegionEvaluator& regions, std::span<const double> point) {
  return implicit_networks::exact_scalar<Real>(regions.graph(), regions.target(), regions.options().iso, point);
}

/// How far a number is from the middle of an interval, over half its width; above 1: outside.
inline double share_of(const Real& x, const Interval& interval) {
  const Real lower(interval.lower()), upper(interval.upper());
  if (x < lower || upper < x) return std::numeric_limits<double>::infinity();
  if (!interval.is_finite() || interval.lower() == interval.upper()) return 0.0;
  const Real middle = (lower + upper) / 2;
  return std::min(1.0, static_cast<double>(Real(abs(x - middle) / ((upper - lower) / 2))));
}

/// The largest shares of values and of difference quotients in ranges of a box.
struct Shares {
  double value = 0.0, gradient = 0.0;
};

/// `points` of the box: values, and quotients between points that differ in one coordinate, which a mean value theorem
/// puts into the gradient's intervals (Lebourg's).
inline Shares shares_in(const RegionEvaluator& regions, const Box& box, const Range& range, std::size_t points,
                        std::mt19937_64& generator) {
  Shares shares;
  for (std::size_t number = 0; number < points; ++number) {
    const std::vector<double> point = point_in(box, number, generator);
    const Real value = exact(regions, point);
    shares.value = std::max(shares.value, share_of(value, range.value));
    if (range.gradient.empty()) continue;
    const std::size_t j = number % point.size();
    std::vector<double> other = point;
    other[j] = point_in(box, points, generator)[j];
    if (other[j] == point[j]) continue;
    const Real quotient = (exact(regions, other) - value) / (Real(other[j]) - Real(point[j]));
    shares.gradient = std::max(shares.gradient, share_of(quotient, range.gradient[j]));
  }
  return shares;
}

}  // namespace region_checks
