#pragma once

#include <cstddef>
#include <cstdint>

namespace driftbound::bounds {

inline namespace theorems {

/// n w S (1 + w)^n + P 2^-1074, w = 2^-53: what n roundings of a sum in double lose, and P products that may underflow.
/// Shapes:    `size`: S, or S summed up in double in at most n additions
/// Domain:    n <= 2^50; infinite or NaN where `size` is
/// Guarantee: rounded up; 0 where S and P are 0
/// Source:    docs/theory.md T-64
double defect(double size, std::int64_t roundings, std::int64_t products);

/// ((1 + u)^n - 1) |d| |W| + 2^-149 n, u = 2^-24: what rows d of numbers of single precision times a matrix of such,
/// sums of n products in single precision, are off in any element.
/// Shapes:    `norm`: |d|, 2-norm of a row; `largest`: |W|, largest 2-norm of what it is multiplied with
/// Domain:    is_single_enough()
/// Guarantee: rounded up
/// Source:    docs/theory.md T-72
double single_defect(double norm, double largest, std::int64_t n);

/// 2 u S (1 + 8 u) + 2^-149, u = 2^-24: what products in single precision, of up to S, of numbers of it and numbers that
/// were rounded to it are off; and what sums of two are.
/// Guarantee: rounded up; infinite or NaN where S is
/// Source:    docs/theory.md T-72
double single_rounding(double size);

/// Whether no such sum overflows, and roundings stay few: norms up to 2^60 and n < 2^20.
/// Source:    docs/theory.md T-72
bool is_single_enough(double norm, double largest, std::int64_t n);

/// (2 k + 8) u, u = 2^-24: error of sums of k products in single precision, over the sum of their magnitudes.
/// Source:    docs/theory.md T-81
double coarse_error(std::size_t k);

}  // namespace theorems

}  // namespace driftbound::bounds
