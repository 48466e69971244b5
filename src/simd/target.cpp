#include "simd/target.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace driftbound::simd {

#ifdef __x86_64__
namespace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f");
}

bool has_vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

bool has_tiles_of_bytes() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tile = 1u << 24, tile_of_bytes = 1u << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & tile) != 0 && (d & tile_of_bytes) != 0;
}

/// Requests the tile registers from the operating system. Linux enables them for a process on request only.
bool may_use_tiles() {
#ifdef __linux__
  constexpr long request_permission = 0x1023, tile_data = 18;
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace

bool is_usable(Target target) {
  switch (target) {
    case Target::baseline:
      return true;
    case Target::avx2:
      return has_avx2();
    case Target::avx512:
      return has_avx512();
    case Target::vnni:
      return has_vnni();
    case Target::amx:
      return has_vnni() && has_tiles_of_bytes() && may_use_tiles();
  }
  return false;
}
#else
bool is_usable(Target target) {
  return target == Target::baseline;
}
#endif

}  // namespace driftbound::simd
