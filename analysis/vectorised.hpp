#pragma once

#include <climits>  // says which C library there is

/// A function whose loops the compiler turns into vectors: compiled once for each set of instructions with wider ones,
/// of which the processor's best is taken when the program starts. Every element is computed as without, as nothing is
/// contracted or put in another order. The function must not change how numbers are rounded.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__UCLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DRIFTBOUND_VECTORISED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DRIFTBOUND_VECTORISED
#endif
