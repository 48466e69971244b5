#pragma once

#include <mpfr.h>

namespace driftbound {

/// erf(x) or erfc(x) by a series in fixed point, for |x| <= 16 and results of 53 to 4096 bits, and where they are 1 or 2
/// but for less than what y shows; false, with y as it was, for others.
/// Guarantee: proven: a relative error of at most 1.01 units of roundoff of y
/// Source:    docs/theory.md T-128
bool erf_by_series(mpfr_ptr y, mpfr_srcptr x);
bool erfc_by_series(mpfr_ptr y, mpfr_srcptr x);

}  // namespace driftbound
