#pragma once

#include <cstddef>
#include <cstdint>

namespace driftbound::bounds {

inline namespace theorems {

// Bounds of the rounding errors of sums and products in double and in single precision.

/// D(S, n, P) = n w S (1 + w)^n + P 2^-1074, w = 2^-53: the error of a sum in double with n roundings, of which P
/// products may underflow.
/// Shapes:    `size` is S, or S as computed in double in at most n additions
/// Domain:    n <= 2^50; infinite or NaN where `size` is
/// Guarantee: rounded up; 0 where S and P are 0
/// Source:    docs/theory.md T-64
double defect(double size, std::int64_t roundings, std::int64_t products);

/// ((1 + u)^n - 1) ‖d‖₂ max_k ‖W_k‖₂ + 2^-149 n, u = 2^-24: bound of the error of every element of d W, where d and W
/// are in single precision, and so are the sums of n products.
/// Shapes:    `norm` is ‖d‖₂; `largest` is max_k ‖W_k‖₂ over the vectors that d is multiplied with
/// Domain:    is_single_enough()
/// Guarantee: rounded up
/// Source:    docs/theory.md T-72
double single_defect(double norm, double largest, std::int64_t n);

/// 2 u S (1 + 8 u) + 2^-149, u = 2^-24: bound of the error of a product in single precision of magnitude at most S, one
/// factor of which was rounded to single precision; also of the error of a sum of two.
/// Guarantee: rounded up; infinite or NaN where S is
/// Source:    docs/theory.md T-72
double single_rounding(double size);

/// Whether single_defect() may be used: both norms at most 2^60, so that no sum overflows, and n < 2^20.
/// Source:    docs/theory.md T-72
bool is_single_enough(double norm, double largest, std::int64_t n);

/// (2 k + 8) u, u = 2^-24: error of a sum of k products in single precision (T-81), relative to the sum of their
/// magnitudes.
/// Source:    docs/theory.md T-81
double coarse_error(std::size_t k);

}  // namespace theorems

}  // namespace driftbound::bounds
