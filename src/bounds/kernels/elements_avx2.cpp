#include "bounds/kernels/elements_kernel.hpp"

namespace driftbound::bounds {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 4;
  typedef double Doubles __attribute__((vector_size(32)));
  typedef std::int64_t Integers __attribute__((vector_size(32)));
};

}  // namespace

const ElementKernels elements_avx2 = element_kernels<Vectors>("avx2");

}  // namespace driftbound::bounds
