#include "linalg/residue_kernels.hpp"

#include "simd/dispatch.hpp"

namespace driftbound::linalg {
namespace {

constexpr simd::Build<ResidueKernels> builds[] = {{simd::Target::baseline, &residue_baseline},
#ifdef __x86_64__
                                                  {simd::Target::vnni, &residue_vnni},
                                                  {simd::Target::amx, &residue_amx}
#endif
};

}  // namespace

std::vector<const ResidueKernels*> usable_residue_kernels() {
  return simd::usable<builds>();
}

const ResidueKernels* fastest_residue_kernels() {
  const ResidueKernels* const fastest = &simd::fastest<builds>();
  return fastest == &residue_baseline ? nullptr : fastest;
}

}  // namespace driftbound::linalg
