#pragma once

#include <cmath>
#include <limits>
#include <span>

namespace driftbound {

/// Makes every NaN the same quiet NaN, so that traces can be compared by their bytes.
template <class Real>
void unify_nans(std::span<Real> values) {
  for (Real& x : values) {
    if (std::isnan(x)) x = std::numeric_limits<Real>::quiet_NaN();
  }
}

}  // namespace driftbound
