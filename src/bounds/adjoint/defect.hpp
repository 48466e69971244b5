#pragma once

#include <cstdint>

namespace driftbound::bounds {

/// n w S (1 + w)^n + P 2^-1074, w = 2^-53: what n roundings of a sum in double lose, and P products that may underflow.
/// Shapes:    `size`: S, or S summed up in double in at most n additions
/// Domain:    n <= 2^50; infinite or NaN where `size` is
/// Guarantee: rounded up; 0 where S and P are 0
/// Source:    docs/theory.md T-64
double defect(double size, std::int64_t roundings, std::int64_t products);

}  // namespace driftbound::bounds
