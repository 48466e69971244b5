#pragma once

#include <cstdint>

#include "driftbound/num/magnitude.hpp"

namespace driftbound {

/// gamma_n = n u / (1 - n u), rounded up; infinite where n u >= 1.
/// Domain:    n >= 0, 0 <= u < 1
/// Tightness: relative excess below 2^-49 while n u <= 1/2, barring underflow
/// Source:    docs/theory.md T-04; Higham (2002), Lemma 3.1
/// Throws:    InvalidArgument outside the domain
Magnitude gamma(std::int64_t n, double unit_roundoff);

/// (1 + u)^n - 1, rounded up: the growth of n roundings on one path, without a condition on n u.
/// Tightness: relative excess at most n u + 2^-50 while n u <= 1.
/// Domain:    n >= 0, 0 <= u < 1
/// Source:    docs/theory.md T-05
/// Throws:    InvalidArgument outside the domain
Magnitude growth(std::int64_t n, double unit_roundoff);

}  // namespace driftbound
