#pragma once

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

// Proof by Cholesky factorisation in double that a matrix is positive definite up to a bound, and bounds of
// eigenvalues.

/// Whether the Cholesky factorisation A = Rᵀ R in double has positive pivots only; false if a number is not finite. A
/// is symmetric; only elements on and above its diagonal are read.
/// Guarantee: if true, A has no eigenvalue below -definite_within(n, trace of A)
/// Shapes:    A [n, n]
/// Source:    docs/theory.md T-129
bool has_cholesky_factor(Tensor<double> a);

/// The bound of has_cholesky_factor(): about n 2^-52 times the trace.
/// Guarantee: proven
/// Source:    docs/theory.md T-129
Magnitude definite_within(std::int64_t n, Magnitude trace);

/// Upper bound of the largest eigenvalue of a symmetric matrix G with a nonnegative diagonal. Tries numbers x slightly
/// above the estimate of Lanczos' method until has_cholesky_factor() proves that one is large enough; infinite if it
/// does so for none of them.
/// Guarantee: proven
/// Domain:    elements and n such that squares of sums of n of them are finite and not all subnormal
/// Tightness: relative excess mostly below 2^-10 if eigenvalues cluster at the largest one, 2^-40 + n² 2^-51 if that
///            one is well separated
/// Shapes:    G [n, n], n > 0
/// Source:    docs/theory.md T-129
Magnitude largest_eigenvalue(const Tensor<double>& g);

}  // namespace driftbound::bounds
