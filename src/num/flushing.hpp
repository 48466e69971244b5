#pragma once

#if defined(__x86_64__) && defined(__SSE2_MATH__)
#include <xmmintrin.h>
#endif

namespace driftbound::num {

/// As require_subnormals, by computing with subnormal numbers: some hundred nanoseconds.
void require_subnormals_by_trial();

/// Checks that the calling thread neither flushes subnormal results (FTZ) nor reads subnormal operands as zero (DAZ).
/// On x86-64 this reads one register: a nanosecond.
/// Throws:    UnsoundEnvironment
inline void require_subnormals() {
#if defined(__x86_64__) && defined(__SSE2_MATH__)
  constexpr unsigned daz_and_ftz = 0x8040;
  if ((_mm_getcsr() & daz_and_ftz) == 0) return;
#endif
  require_subnormals_by_trial();
}

}  // namespace driftbound::num
