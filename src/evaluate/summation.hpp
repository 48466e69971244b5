#pragma once

#include <cstdint>
#include <span>

#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// Length of every chain but the last of an order over n terms; 0 for pairwise.
/// Domain:    n >= 1; not the order `unknown`
std::size_t chain_length(const SummationOrder& order, std::int64_t n);

/// Terms added in the declared order, each addition rounded to Real. 0 for no terms.
template <class Real>
Real sum(std::span<const Real> terms, const SummationOrder& order);

}  // namespace driftbound
