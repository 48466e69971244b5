#include "num/residue_kernels.hpp"

#ifdef DRIFTBOUND_X86_KERNELS
#include <cpuid.h>
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace driftbound::num {

#ifdef DRIFTBOUND_X86_KERNELS
namespace {

bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
}

bool has_tiles_of_bytes() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tile = 1u << 24, tile_of_bytes = 1u << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & tile) != 0 && (d & tile_of_bytes) != 0;
}

/// Linux gives a process the state of tiles only when it asks.
bool may_use_tiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long request_permission = 0x1023, tile_data = 18;
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace
#endif

std::vector<const ResidueKernels*> usable_residue_kernels() {
  std::vector<const ResidueKernels*> kernels = {&residue_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (has_avx512_vnni()) kernels.push_back(&residue_vnni);
  if (has_avx512_vnni() && has_tiles_of_bytes() && may_use_tiles()) kernels.push_back(&residue_amx);
#endif
  return kernels;
}

const ResidueKernels* fastest_residue_kernels() {
  static const ResidueKernels* const fastest = usable_residue_kernels().back();
  return fastest == &residue_baseline ? nullptr : fastest;
}

}  // namespace driftbound::num
