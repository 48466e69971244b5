#pragma once

#include <cstdint>

// A kernel source is compiled once per instruction set (cmake/Kernels.cmake), each time with another DRIFTBOUND_SIMD_TARGET.
// It defines one table of functions, DRIFTBOUND_SIMD_NAME(rows): rows_baseline, rows_avx2, rows_avx512.

namespace driftbound::simd {

/// Instruction sets that kernels are compiled for. `baseline` is what the compiler assumes of every processor; each of
/// the others includes the ones before it.
enum class Target : std::uint8_t {
  baseline,
  avx2,    ///< AVX2 and FMA
  avx512,  ///< AVX-512 F
  vnni,    ///< AVX-512 VNNI: products of bytes
  amx      ///< AMX-INT8: products of tiles of bytes
};

/// Whether this processor and this operating system run code for a target.
bool is_usable(Target target);

/// One table of kernels, as it was compiled for a target.
template <class Kernels>
struct Build {
  Target target;
  const Kernels* kernels;
};

}  // namespace driftbound::simd

#define DRIFTBOUND_SIMD_JOIN(name, target) name##_##target
#define DRIFTBOUND_SIMD_EXPAND(name, target) DRIFTBOUND_SIMD_JOIN(name, target)
/// The name of what a kernel source defines, and that name as a string.
#define DRIFTBOUND_SIMD_NAME(name) DRIFTBOUND_SIMD_EXPAND(name, DRIFTBOUND_SIMD_TARGET)
#define DRIFTBOUND_SIMD_TEXT(target) #target
#define DRIFTBOUND_SIMD_STRING(target) DRIFTBOUND_SIMD_TEXT(target)
#define DRIFTBOUND_SIMD_TARGET_NAME DRIFTBOUND_SIMD_STRING(DRIFTBOUND_SIMD_TARGET)

/// Declares the tables of a kernel source, and lists them as <name>_builds, the slowest first.
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
