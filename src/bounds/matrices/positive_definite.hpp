#pragma once

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

/// Whether the Cholesky factorisation of A in double, rows of R from the first to the last, meets positive pivots
/// alone. A is symmetric, and only what lies on and above its diagonal is read; false where a number is not finite.
/// Guarantee: where true, A has no eigenvalue below -definite_within(n, trace of A)
/// Shapes:    A [n, n]
/// Source:    docs/theory.md T-129
bool has_cholesky_factor(Tensor<double> a);

/// See has_cholesky_factor(): some n 2^-52 times the trace.
/// Guarantee: proven
/// Source:    docs/theory.md T-129
Magnitude definite_within(std::int64_t n, Magnitude trace);

/// Upper bound of the largest eigenvalue of a symmetric matrix G without negative elements on its diagonal: numbers a
/// little above where Lanczos' method has come to, until one exceeds it for certain. Infinite where none of them does.
/// Guarantee: proven
/// Domain:    elements and n such that squares of sums of n of them are finite and not all subnormal
/// Tightness: relative excess mostly below 2^-10 where eigenvalues crowd at the largest, 2^-40 + n² 2^-51 where it
///            stands apart
/// Shapes:    G [n, n], n > 0
/// Source:    docs/theory.md T-129
Magnitude largest_eigenvalue(const Tensor<double>& g);

}  // namespace driftbound::bounds
