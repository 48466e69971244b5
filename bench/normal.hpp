#pragma once

#include <cstdint>
#include <random>

#include "driftbound/model/tensor.hpp"

namespace driftbound::bench {

/// Normal numbers, the same for the same seed.
inline Tensor<float> normal(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> draw;
  Tensor<float> tensor(shape);
  for (float& x : tensor.values) x = draw(random);
  return tensor;
}

}  // namespace driftbound::bench
