#pragma once

#include <cstdint>

#include "driftbound/num/magnitude.hpp"
#include "num/double_double.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// Error bounds of one op in double-double arithmetic, from upper bounds of the magnitudes of its normalised operands or
// of its exact result.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-90, T-114

/// The error of a + b and of a - b.
Magnitude pair_sum_error(Magnitude a, Magnitude b);
Magnitude pair_product_error(Magnitude result);
Magnitude pair_quotient_error(Magnitude result);
/// The error of a function as num::DoubleDoubleKernels evaluates it.
Magnitude pair_function_error(num::DoubleDoubleFunction f, Magnitude result);
/// The error of a sum of `products` products of a double with a double-double number, plus a bias; `terms` is the sum
/// of their magnitudes. The sum may be scaled before the bias is added, by at most `factor` >= 1 in magnitude.
Magnitude pair_dense_error(std::int64_t products, Magnitude terms, Magnitude factor = Magnitude(1.0));

}  // namespace theorems

}  // namespace driftbound::bounds
