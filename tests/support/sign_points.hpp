#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"

/// Points at which signs are easy and hard, one after the other.
namespace sign_points {

/// Uniform in [-1, 1].
inline std::vector<double> uniform(std::size_t rows, std::size_t dimension, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<double> points(rows * dimension);
  for (double& x : points) x = std::ldexp(static_cast<double>(generator() >> 11U), -52) - 1.0;
  return points;
}

inline std::vector<driftbound::PointSign> signs_of(const driftbound::SignField& field,
                                                   const std::vector<double>& points) {
  std::vector<driftbound::PointSign> signs(points.size() / field.dimension());
  field.signs(points.data(), static_cast<std::int64_t>(signs.size()), static_cast<std::ptrdiff_t>(field.dimension()), 1,
              signs);
  return signs;
}

/// On the surface as near as `steps` halvings go (60: as doubles go), between uniform points of different sign.
inline std::vector<double> bisected(const driftbound::SignField& field, std::size_t rows, std::uint64_t seed,
                                    int steps = 60) {
  const std::size_t dimension = field.dimension();
  std::vector<double> inside, outside;
  for (std::uint64_t draw = 0; draw < 64 && (inside.size() < rows * dimension || outside.size() < rows * dimension);
       ++draw) {
    const std::vector<double> points = uniform(rows, dimension, seed + 1000 * draw);
    const std::vector<driftbound::PointSign> signs = signs_of(field, points);
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double>& side = signs[row].sign == driftbound::Sign::positive ? outside : inside;
      const auto first = points.begin() + static_cast<std::ptrdiff_t>(row * dimension);
      if (side.size() < rows * dimension)
        side.insert(side.end(), first, first + static_cast<std::ptrdiff_t>(dimension));
    }
  }
  const std::size_t size = std::min(inside.size(), outside.size());
  inside.resize(size);
  outside.resize(size);
  std::vector<double> middle(size);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < size; ++i) middle[i] = 0.5 * inside[i] + 0.5 * outside[i];
    const std::vector<driftbound::PointSign> signs = signs_of(field, middle);
    for (std::size_t i = 0; i < size; ++i)
      (signs[i / dimension].sign == driftbound::Sign::positive ? outside : inside)[i] = middle[i];
  }
  return middle;
}

/// Within `width` of such points in every coordinate.
inline std::vector<double> band(std::vector<double> points, double width, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> offset(-width, width);
  for (double& x : points) x += offset(generator);
  return points;
}

}  // namespace sign_points
