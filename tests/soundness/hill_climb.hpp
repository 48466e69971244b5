#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driftbound/trace/arithmetic.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// The data that came closest to a bound of one dot product of length n.
struct Approach {
  double utilisation = 0.0;
  std::vector<double> a, b;
};

/// Searches for products sum a_k b_k whose error comes close to a local bound, by changing the best pairs
/// (a, b) found so far. Everything it meets is checked and counted as well.
Approach hill_climb(const ArithmeticModel& arithmetic, std::int64_t n, BoundKind kind, std::uint64_t seed,
                    int generations, const CheckOptions& options, Tally& tally);

/// "(a, b) pairs" in hexadecimal, for messages.
std::string to_string(const Approach& approach);

}  // namespace driftbound::soundness
