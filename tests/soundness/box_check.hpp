#pragma once

#include <cstdint>

#include "soundness/random_networks.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// Points around the first sample of a case, from a unit in the last place to its whole size away. One bound for the
/// box that they lie in is held against a run at every point ("box error"), and its range against the exact values
/// ("box range"), of the first and the last element of the first output and of their difference. Bounds that are not
/// supported count as a case without outputs.
/// Source:    docs/theory.md T-77, T-117
void check_box(const Case& the_case, std::uint64_t seed, Tally& tally);

/// The same points, and the same box as domain: certified signs of the first element minus its value at one of them
/// ("sign": 1 for a sign that is certainly wrong, against a bound of 0), and values next to their bounds ("sign value").
/// Source:    docs/theory.md T-110
void check_signs(const Case& the_case, std::uint64_t seed, Tally& tally);

}  // namespace driftbound::soundness
