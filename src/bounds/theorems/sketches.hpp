#pragma once

#include <cstdint>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// Radii by random directions (T-78). Guarantee: proven, rounded outward; the probability is that of the library's own
// random bits.

/// A random number xi of mean 0 and variance 1 from 64 random bits: (number of ones - 32) / 4.
/// Source:    docs/theory.md T-78
double coin_flips(std::uint64_t bits);

/// chi such that, for all numbers a_s, the sum of squares of `directions` independent combinations sum_s a_s xi_s is at
/// most chi sum a_s^2 with a probability of at most `failure`; 0 if there is no such chi > 0.
/// Domain:    0 < failure < 1
/// Tightness: the Chernoff bound of chi-squared: for many a_s of one size the probability is about a fifth of `failure`
/// Source:    docs/theory.md T-78
double sketch_quantile(std::int64_t directions, double failure);

/// (A / a)^2, A the amplitude of a source, a that of its noise: a term of W. Infinite if A > 0 and a = 0.
/// Source:    docs/theory.md T-78
Magnitude sketch_share(Magnitude amplitude, double noise);

/// sqrt(W) ||t||_2 / (sqrt(chi) - Theta), W = shares, ||t||_2 = norm, Theta = lost; infinite if the denominator is not
/// positive.
/// Source:    docs/theory.md T-78
Magnitude sketch_radius(Magnitude shares, Magnitude norm, double chi, Magnitude lost);

/// Whether the error that enters at a source is at most the amplitude A assumed for it.
/// Source:    docs/theory.md T-78
bool sketch_covers(double entered, double amplitude);

}  // namespace theorems

}  // namespace driftbound::bounds
