#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

/// What T-74 takes for granted of rounding errors.
inline constexpr const char* chance_condition =
    "the error of every rounding to nearest has mean 0 whatever the errors before it were, and orders of summation are "
    "fixed beforehand (T-74)";

/// Coarser accumulators stagnate in sums that do not look like it.
inline constexpr double coarsest_by_chance = 0x1p-24;

inline namespace theorems {

// Rounding errors left to chance: what T-74 and T-75 have in common.

/// lambda with 2 n e^(-lambda^2 / 2) <= p: sums of n sets of martingale differences stay within lambda roots of their
/// squares together with probability at least 1 - p.
/// Domain:    0 < p <= 1, n >= 1
/// Source:    docs/theory.md T-74
double tail_factor(double failure_probability, std::int64_t statements);

/// 2 n e^(-lambda^2 / 2), rounded up; at most 1.
/// Source:    docs/theory.md T-74
double failure_probability_of(double tail_factor, std::int64_t statements);

/// rest + lambda sqrt(squares).
/// Source:    docs/theory.md T-74
Magnitude with_chance(Magnitude rest, Magnitude squares, double tail_factor);

/// sum over sets of elements that err alike of (sum |d_i|)^2 (max c_i)^2. `alike` names a member of each element's set;
/// empty: every element errs by itself. An infinite amplitude counts where d is 0 too.
/// Shapes:    one entry an element
/// Source:    docs/theory.md T-74
Magnitude weighted_squares(std::span<const double> d, std::span<const double> amplitudes,
                           std::span<const std::uint32_t> alike);

/// The largest (d_i c_i)^2.
double largest_square(std::span<const double> d, std::span<const double> amplitudes);

/// Sets of elements with the same value and the same amplitude: they may be the same computation. Empty where no two
/// are.
/// Source:    docs/theory.md T-74
std::vector<std::uint32_t> correlated_elements(std::span<const double> values, std::span<const double> amplitudes);

/// Whether two of these numbers may be the same, or one is no number, among those that may err. True by chance is rare.
bool may_have_equals(std::span<const double> values, std::span<const double> amplitudes,
                     std::span<const double> estimates);

/// Why rounding errors of this arithmetic are no matter of chance; empty where they may be taken for one.
/// Source:    docs/theory.md T-74
std::string refused_by(const Machine& machine);

}  // namespace theorems

}  // namespace driftbound::bounds
