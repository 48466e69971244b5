#pragma once

#include <cstdint>

#include "driftbound/num/magnitude.hpp"
#include "num/double_double.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// What one op in double-double loses, from the largest magnitudes of its normalised operands and of its exact result.
// Guarantee: proven, rounded up. Source: docs/theory.md T-90, T-114

/// Of a + b and a - b.
Magnitude pair_sum_error(Magnitude a, Magnitude b);
Magnitude pair_product_error(Magnitude result);
Magnitude pair_quotient_error(Magnitude result);
/// Of a function by the loops of num::DoubleDoubleKernels.
Magnitude pair_function_error(num::DoubleDoubleFunction f, Magnitude result);
/// Of a sum of so many products of doubles with pairs and a bias, `terms` their magnitudes summed; also where it is
/// scaled before the bias is added: by `factor` at most, 1 or more.
Magnitude pair_dense_error(std::int64_t products, Magnitude terms, Magnitude factor = Magnitude(1.0));

}  // namespace theorems

}  // namespace driftbound::bounds
