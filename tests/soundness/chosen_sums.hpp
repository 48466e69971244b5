#pragma once

#include <vector>

namespace driftbound::soundness {

/// The sum of float32 numbers by float32 additions, in an order chosen so that their roundings err upwards (direction
/// 1) or downwards (-1) as far as a simple rule takes them: partial sums grow far and come back (the terms of one sign
/// first, the largest first), and an addition to a partial sum that is a multiple of its unit in the last place errs
/// by what its term is off such a multiple; so terms that would err the other way, or little, are added in pairs that
/// err much. Never less than the terms in turn; these too where one of them is not finite.
float sum_erring(std::vector<float> terms, double direction);

}  // namespace driftbound::soundness
