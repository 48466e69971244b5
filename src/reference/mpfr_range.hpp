#pragma once

#include <mpfr.h>

namespace driftbound {

/// Gives the calling thread the exponent range of the reference, 2^-2^61 to 2^2^61, as long as it lives: wide enough
/// for every function of every double, narrow enough that sums of exponents do not overflow, and the same
/// whatever the program around has set. Frees the constants that MPFR caches for the thread.
class MpfrRange {
public:
  MpfrRange() {
    mpfr_set_emin(-(mpfr_exp_t{1} << 61));
    mpfr_set_emax(mpfr_exp_t{1} << 61);
  }
  ~MpfrRange() {
    mpfr_set_emin(emin_);
    mpfr_set_emax(emax_);
    mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE);
  }
  MpfrRange(const MpfrRange&) = delete;
  MpfrRange& operator=(const MpfrRange&) = delete;

private:
  mpfr_exp_t emin_ = mpfr_get_emin();
  mpfr_exp_t emax_ = mpfr_get_emax();
};

}  // namespace driftbound
