#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace driftbound {

/// State of SHA-256 (FIPS 180-4) between blocks of 64 bytes.
using Sha256State = std::array<std::uint32_t, 8>;

/// Takes so many blocks, one after the other.
using Sha256Blocks = void (*)(Sha256State& state, const std::uint8_t* blocks, std::size_t count);

/// Those that this processor can run, the slowest first: all give the same state.
std::vector<Sha256Blocks> usable_sha256_blocks();

}  // namespace driftbound
