#pragma once

#include <cstdint>

// Instruction sets, and the tables of kernels compiled for them. A kernel source is compiled once per instruction set
// (cmake/Kernels.cmake), each time with another value of DRIFTBOUND_SIMD_TARGET. It defines one table of functions, for
// example DRIFTBOUND_SIMD_NAME(rows), which is rows_baseline, rows_avx2 or rows_avx512.

namespace driftbound::simd {

/// Instruction sets that kernels are compiled for. `baseline` is the one that the compiler assumes by default; each of
/// the others includes the ones before it.
enum class Target : std::uint8_t {
  baseline,
  avx2,    ///< AVX2 and FMA
  avx512,  ///< AVX-512 F
  vnni,    ///< AVX-512 VNNI: dot products of 8-bit integers
  amx      ///< AMX-INT8: matrix products of tiles of 8-bit integers
};

/// Whether this processor and this operating system can execute code compiled for a target.
bool is_usable(Target target);

/// One table of kernels and the target that it is compiled for.
template <class Kernels>
struct Build {
  Target target;
  const Kernels* kernels;
};

}  // namespace driftbound::simd

#define DRIFTBOUND_SIMD_JOIN(name, target) name##_##target
#define DRIFTBOUND_SIMD_EXPAND(name, target) DRIFTBOUND_SIMD_JOIN(name, target)
/// DRIFTBOUND_SIMD_NAME(name): the identifier name_target, where target is DRIFTBOUND_SIMD_TARGET.
/// DRIFTBOUND_SIMD_TARGET_NAME: the target as a string.
#define DRIFTBOUND_SIMD_NAME(name) DRIFTBOUND_SIMD_EXPAND(name, DRIFTBOUND_SIMD_TARGET)
#define DRIFTBOUND_SIMD_TEXT(target) #target
#define DRIFTBOUND_SIMD_STRING(target) DRIFTBOUND_SIMD_TEXT(target)
#define DRIFTBOUND_SIMD_TARGET_NAME DRIFTBOUND_SIMD_STRING(DRIFTBOUND_SIMD_TARGET)

/// Declares the tables of a kernel source and the array <name>_builds of them, slowest first.
#ifdef __x86_64__
#define DRIFTBOUND_SIMD_BUILDS(Kernels, name)                             \
  extern const Kernels name##_baseline, name##_avx2, name##_avx512;       \
  inline constexpr ::driftbound::simd::Build<Kernels> name##_builds[] = { \
      {::driftbound::simd::Target::baseline, &name##_baseline},           \
      {::driftbound::simd::Target::avx2, &name##_avx2},                   \
      {::driftbound::simd::Target::avx512, &name##_avx512}}
#else
#define DRIFTBOUND_SIMD_BUILDS(Kernels, name)                             \
  extern const Kernels name##_baseline;                                   \
  inline constexpr ::driftbound::simd::Build<Kernels> name##_builds[] = { \
      {::driftbound::simd::Target::baseline, &name##_baseline}}
#endif
