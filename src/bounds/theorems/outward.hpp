#pragma once

#include <cstdint>

namespace driftbound::bounds::inline theorems {

/// True value of a sum of nonnegative terms from its value in double, `roundings` of them on the longest path
/// and `products` products that may have underflowed.
/// Source:    docs/theory.md T-08
double outward(double value, std::int64_t roundings, std::int64_t products);

}  // namespace driftbound::bounds::inline theorems
