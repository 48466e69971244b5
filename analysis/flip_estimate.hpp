#pragma once

#include <cstddef>
#include <span>

namespace driftbound::analysis {

/// In how many rows the second run would choose another class than the first one, the largest number, of equal ones the
/// first, if the differences of single numbers were independent. Their law is the one seen at numbers of the same binade,
/// with both signs, where these are few (of results in a coarse format, which may be equal in both runs), else the
/// normal law with the root mean square of all.
/// Shapes:    `first`, `second`: [rows, classes], row-major. Rows with NaN, or with a largest number that is not finite,
///            count nothing
/// Guarantee: none: an estimate
/// Source:    docs/theory.md T-181
double estimate_flips(std::span<const double> first, std::span<const double> second, std::size_t classes);

}  // namespace driftbound::analysis
