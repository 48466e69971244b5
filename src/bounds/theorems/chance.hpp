#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

// Bounds with rounding errors modelled as random: the parts that T-74 and T-75 share.

/// The assumption of T-74 about rounding errors.
inline constexpr const char* chance_condition =
    "the error of every rounding to nearest has mean 0 whatever the errors before it were, and orders of summation are "
    "fixed beforehand (T-74)";

/// The largest unit roundoff for which T-74 is used. Sums in coarser accumulators may stagnate without a pattern that
/// shows it.
inline constexpr double coarsest_by_chance = 0x1p-24;

inline namespace theorems {

/// lambda with 2 n e^(-lambda^2 / 2) <= p: n sums of martingale differences with bounds c_i all have magnitudes of at
/// most lambda sqrt(sum c_i^2) with probability at least 1 - p.
/// Domain:    0 < p <= 1, n >= 1
/// Source:    docs/theory.md T-74
double tail_factor(double failure_probability, std::int64_t statements);

/// min(1, 2 n e^(-lambda^2 / 2)), rounded up.
/// Source:    docs/theory.md T-74
double failure_probability_of(double tail_factor, std::int64_t statements);

/// rest + lambda sqrt(squares).
/// Source:    docs/theory.md T-74
Magnitude with_chance(Magnitude rest, Magnitude squares, double tail_factor);

/// An upper bound of rest + lambda sqrt(r squares) for the bound = rest + lambda sqrt(squares) of a sum of which up to
/// r = `repeats` terms have equal magnitudes.
/// Domain:    repeats >= 1
/// Source:    docs/theory.md T-133
Magnitude with_repeats(Magnitude bound, std::int64_t repeats);

/// An upper bound of the probability of `heads` or more heads in `coins` throws of a fair coin.
/// Domain:    0 <= heads <= coins
/// Source:    docs/theory.md T-134
double coin_tail(std::int64_t heads, std::int64_t coins);

/// The sum over sets of correlated elements of (sum |d_i|)^2 (max c_i)^2, c = amplitudes. alike[i] is the member that
/// represents element i's set; if `alike` is empty, no elements are correlated. Infinite if an amplitude is not finite,
/// even where d is 0.
/// Shapes:    all [n], or `alike` empty
/// Source:    docs/theory.md T-74
Magnitude weighted_squares(std::span<const double> d, std::span<const double> amplitudes,
                           std::span<const std::uint32_t> alike);

/// max (d_i c_i)^2, c = amplitudes.
double largest_square(std::span<const double> d, std::span<const double> amplitudes);

/// Per element, the first element with the same value and the same amplitude: these are treated as correlated, since
/// they may be the same computation. Empty if no element with a nonzero amplitude has such a partner.
/// Source:    docs/theory.md T-74
std::vector<std::uint32_t> correlated_elements(std::span<const double> values, std::span<const double> amplitudes);

/// Whether two values may be equal, or one is NaN, among the elements with a nonzero amplitude or estimate. Rarely true
/// for values that all differ.
bool may_have_equals(std::span<const double> values, std::span<const double> amplitudes,
                     std::span<const double> estimates);

/// The reason why rounding errors of this arithmetic must not be modelled as random; empty if they may.
/// Source:    docs/theory.md T-74
std::string refused_by(const Machine& machine);

}  // namespace theorems

}  // namespace driftbound::bounds
