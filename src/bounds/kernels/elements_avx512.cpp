#include "bounds/kernels/elements_kernel.hpp"

namespace driftbound::bounds {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 8;
  typedef double Doubles __attribute__((vector_size(64)));
  typedef std::int64_t Integers __attribute__((vector_size(64)));
};

}  // namespace

const ElementKernels elements_avx512 = element_kernels<Vectors>("avx512");

}  // namespace driftbound::bounds
