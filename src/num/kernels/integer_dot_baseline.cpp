#include "num/kernels/integer_dot.hpp"

namespace driftbound::num {
namespace {

__extension__ typedef unsigned __int128 Wide;

std::uint64_t element(const std::uint8_t* bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = integer_bytes; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

void dot(const std::uint8_t* a, const std::uint64_t* b, std::size_t length, std::uint64_t* low, std::uint64_t* high) {
  for (std::size_t r = 0; r < integer_rows; ++r) low[r] = high[r] = 0;
  for (std::size_t l = 0; l < length; l += integer_lanes) {
    for (std::size_t r = 0; r < integer_rows; ++r) {
      for (std::size_t i = 0; i < integer_lanes; ++i) {
        const Wide product = static_cast<Wide>(element(a + integer_place(r, l) + i * integer_bytes)) * b[l + i];
        low[r] += static_cast<std::uint64_t>(product) & 0xfffffffffffff;
        high[r] += static_cast<std::uint64_t>(product >> 52);
      }
    }
  }
}

}  // namespace

const IntegerKernels integers_baseline = {"baseline", &dot};

}  // namespace driftbound::num
