#pragma once

#include <cstdint>

namespace driftbound {

/// A number that no other call has returned or will return. Thread-safe.
std::uint64_t new_identity();

}  // namespace driftbound
