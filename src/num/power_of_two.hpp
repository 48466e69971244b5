#pragma once

#include <bit>
#include <cstdint>

namespace driftbound::num {

/// The largest power of two up to |x|; 0 for 0 and subnormal numbers, infinite for what is no finite number.
inline double power_of_two_in(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000u);
}

}  // namespace driftbound::num
