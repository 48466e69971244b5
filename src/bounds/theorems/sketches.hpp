#pragma once

#include <cstdint>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// What a sketch of random directions makes of sources of error. Guarantee: proven, rounded outward; the probability is
// that of the random bits.

/// A random number of variance 1 from 64 random bits: (how many of them are 1 - 32) / 4.
/// Source:    docs/theory.md T-78
double coin_flips(std::uint64_t bits);

/// chi such that the sum of the squares of `directions` independent combinations sum a_s xi_s of such numbers is at
/// most chi sum a_s^2 with no more than this probability, whatever the a_s; 0 where nothing is known.
/// Domain:    0 < failure < 1
/// Tightness: the Chernoff bound of chi-squared: for many a_s of one size the probability is about a fifth of `failure`
/// Source:    docs/theory.md T-78
double sketch_quantile(std::int64_t directions, double failure);

/// (amplitude / noise)^2; infinite where there is a source, but no noise.
/// Source:    docs/theory.md T-78
Magnitude sketch_share(Magnitude amplitude, double noise);

/// sqrt(sum of shares) ||t|| / (sqrt(chi) - lost), infinite where that is not positive.
/// Source:    docs/theory.md T-78
Magnitude sketch_radius(Magnitude shares, Magnitude norm, double chi, Magnitude lost);

/// Whether what enters at a source is within the amplitude that its noise was drawn for.
/// Source:    docs/theory.md T-78
bool sketch_covers(double entered, double amplitude);

}  // namespace theorems

}  // namespace driftbound::bounds
