#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "driftbound/bounds/box.hpp"

namespace driftbound::implicit {

/// Spread all over a box, the same ones always: multiples of powers of the golden ratio, modulo 1.
inline std::vector<double> points_of(const Box& box, std::size_t rows) {
  constexpr double golden_ratio = 0.6180339887498949;
  std::vector<double> points;
  for (std::size_t row = 0; row < rows; ++row) {
    double step = 1.0;
    for (std::size_t c = 0; c < box.lower.size(); ++c) {
      step *= golden_ratio;
      const double multiple = (static_cast<double>(row) + 0.5) * step, part = multiple - std::floor(multiple);
      points.push_back((1.0 - part) * box.lower[c] + part * box.upper[c]);
    }
  }
  return points;
}

}  // namespace driftbound::implicit
