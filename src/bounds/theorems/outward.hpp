#pragma once

#include <cstdint>

namespace driftbound::bounds::inline theorems {

/// Upper bound of the true value of a sum of nonnegative terms from its value computed in double, with at most
/// `roundings` roundings on any path and at most `products` products that may have underflowed. Infinite if `value` is
/// NaN.
/// Source:    docs/theory.md T-08
double outward(double value, std::int64_t roundings, std::int64_t products);

}  // namespace driftbound::bounds::inline theorems
