#pragma once

#include <algorithm>
#include <cmath>

#include "driftbound/num/format.hpp"
#include "num/doubles.hpp"

namespace driftbound_tests {

using driftbound::Format;
using driftbound::FormatId;

inline constexpr FormatId all_formats[] = {FormatId::fp64, FormatId::fp32,     FormatId::tf32,    FormatId::bf16,
                                           FormatId::fp16, FormatId::fp8_e4m3, FormatId::fp8_e5m2};

/// A random double, three times out of four one that the format does not simply overflow or lose, and
/// often one on or beside a tie.
inline double draw_for(const Format& f, SpitefulDoubles& doubles) {
  if (doubles.between(0, 3) == 0) return doubles.next();
  const int exponent = doubles.between(f.min_exponent - f.precision - 2, f.max_exponent + 1);
  const double significand = 1.0 + static_cast<double>(doubles.bits() >> 12) * 0x1p-52;
  double x = std::ldexp(significand, std::max(-1074, std::min(exponent, 1023)));
  if (doubles.between(0, 1) == 0) {
    const double half_ulp = driftbound::ulp(x, f) / 2.0;
    x = half_ulp > 0.0 ? std::floor(x / half_ulp) * half_ulp : x;
    const int side = doubles.between(-1, 1);
    if (side != 0) x = std::nextafter(x, side * HUGE_VAL);
  }
  return doubles.between(0, 1) == 0 ? x : -x;
}

}  // namespace driftbound_tests
