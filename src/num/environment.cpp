#include "driftbound/num/environment.hpp"

#ifdef __SSE2_MATH__
#include <xmmintrin.h>
#endif

#include <cfenv>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "num/flushing.hpp"

namespace driftbound {
namespace {

// Everything is volatile: the question is what this thread's processor does now, not what the compiler knows.

template <class Real>
bool rounds_to_nearest() {
  constexpr Real unit = std::numeric_limits<Real>::epsilon();
  volatile Real one = 1;
  volatile Real quarter = unit / 4;
  volatile Real three_quarters = 3 * (unit / 4);
  volatile Real stays_one = one + quarter;
  volatile Real stays_minus_one = -one - quarter;
  volatile Real goes_up = one + three_quarters;
  volatile Real goes_down = -one - three_quarters;
  return stays_one == 1 && stays_minus_one == -1 && goes_up == 1 + unit && goes_down == -1 - unit;
}

template <class Real>
bool keeps_subnormal_results() {
  volatile Real smallest_normal = std::numeric_limits<Real>::min();
  volatile Real half = Real(0.5);
  volatile Real product = smallest_normal * half;
  volatile Real doubled = product / half;
  return doubled == smallest_normal;
}

template <class Real>
bool reads_subnormal_operands() {
  volatile Real subnormal = std::numeric_limits<Real>::denorm_min();
  volatile Real scale = 1 / std::numeric_limits<Real>::epsilon();
  volatile Real product = subnormal * scale;
  return product == std::numeric_limits<Real>::min();
}

/// Whether the control registers alone say that all is well; what they say is what processors of this kind do.
bool registers_are_sound() {
#if defined(__x86_64__) && defined(__SSE2_MATH__)
  constexpr unsigned subnormals_as_zero = 0x40, rounding = 0x6000, flush = 0x8000;
  return (_mm_getcsr() & (subnormals_as_zero | rounding | flush)) == 0 && std::fegetround() == FE_TONEAREST;
#else
  return false;
#endif
}

}  // namespace

void require_sound_environment() {
  if (registers_are_sound()) return;  // subnormal numbers cost as much as a small network
  if (std::fegetround() != FE_TONEAREST || !rounds_to_nearest<float>() || !rounds_to_nearest<double>()) {
    throw UnsoundEnvironment(
        "this thread does not round to nearest, so certificates would be wrong: call std::fesetround(FE_TONEAREST) "
        "in it before calling driftbound");
  }
  num::require_subnormals_by_trial();
}

void num::require_subnormals_by_trial() {
  if (!reads_subnormal_operands<float>() || !reads_subnormal_operands<double>()) {
    throw UnsoundEnvironment(
        "this thread reads subnormal operands as zero (DAZ), so certificates would be wrong: clear bit 6 of MXCSR, or "
        "do not load a library that was linked with -ffast-math");
  }
  if (!keeps_subnormal_results<float>() || !keeps_subnormal_results<double>()) {
    throw UnsoundEnvironment(
        "this thread flushes subnormal results to zero (FTZ), so certificates would be wrong: clear bit 15 of MXCSR, "
        "or do not load a library that was linked with -ffast-math");
  }
}

}  // namespace driftbound
