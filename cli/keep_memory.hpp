#pragma once

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace driftbound::cli {

/// Tensors come and go with every block of samples: memory that was freed is kept for the next ones.
inline void keep_memory() {
#ifdef __GLIBC__
  constexpr int most = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, most);
  mallopt(M_TRIM_THRESHOLD, most);
  mallopt(M_TOP_PAD, 1 << 24);
#endif
}

}  // namespace driftbound::cli
