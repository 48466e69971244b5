#include "bounds/nodes/recorded_block.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "bounds/kernels/row_kernels.hpp"

namespace driftbound::bounds {

std::vector<double> RecordedBlock::largest_values() const {
  std::vector<double> largest(layers.size(), 0.0);
  for (std::size_t node = 0; node < layers.size(); ++node) {
    const double of_all = fastest_row_kernels().largest(layers[node]->values.data(), layers[node]->size());
    if (std::isfinite(of_all)) {
      largest[node] = of_all;
      continue;
    }
    for (const double y : layers[node]->values)
      if (std::isfinite(y)) largest[node] = std::max(largest[node], std::abs(y));
  }
  return largest;
}

Interval deviation_at(double computed, double shadow) {
  return Interval(computed) - Interval(shadow);
}

}  // namespace driftbound::bounds
