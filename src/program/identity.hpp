#pragma once

#include <cstdint>

namespace driftbound {

/// Returns a number that is unique among all calls in this process. Caches identify programs by such numbers.
/// Thread-safe.
std::uint64_t new_identity();

}  // namespace driftbound
