#pragma once

#include "mp_support.hpp"

namespace mp {

constexpr int bits = 128;

// Midpoints: ordinary, tiny, large, kinks; radii from far below the last bit to wider than the number.
inline driftbound::BallTensor random_balls(networks::Maker& make, std::size_t n) {
  driftbound::BallTensor balls({static_cast<std::int64_t>(n)}, bits);
  for (std::size_t i = 0; i < n; ++i) {
    const int exponents[] = {0, 0, 0, 4, 6, -20, -200};
    Real400 m(make.number());
    m *= 1 + ldexp(Real400(make.number()), -60);
    m = ldexp(m, exponents[make.below(7)]);
    driftbound::Scaled radius;
    if (!make.chance(0.1))
      radius = driftbound::Scaled::of(std::fabs(make.number()) + 0x1p-20,
                                      -static_cast<std::int64_t>(make.below(make.chance(0.5) ? 8 : 300)));
    if (make.chance(0.05) && !radius.is_zero()) m = mp::real(radius) * (make.chance(0.5) ? 1 : -1);
    mp::set(balls[i], m, radius);
  }
  return balls;
}

}  // namespace mp
