#include "bounds/kernels/elements_kernel.hpp"

namespace driftbound::bounds {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 2;
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::int64_t Integers __attribute__((vector_size(16)));
};

}  // namespace

const ElementKernels elements_baseline = element_kernels<Vectors>("baseline");

}  // namespace driftbound::bounds
