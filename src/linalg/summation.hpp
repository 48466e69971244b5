#pragma once

#include <cstdint>

#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// Length of every chain but the last of an order over n terms; 0 for pairwise (evaluate/shared/sums.inl.hpp).
/// Domain:    n >= 1; not the order `unknown`
std::size_t chain_length(const SummationOrder& order, std::int64_t n);

}  // namespace driftbound
