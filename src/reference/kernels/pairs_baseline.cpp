#include "reference/kernels/pairs_kernel.hpp"

namespace driftbound {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 2;
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::int64_t Integers __attribute__((vector_size(16)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) {
    return Doubles{__builtin_fma(x[0], y[0], z[0]), __builtin_fma(x[1], y[1], z[1])};
  }
  static Doubles sqrt(Doubles x) { return Doubles{__builtin_sqrt(x[0]), __builtin_sqrt(x[1])}; }
};

}  // namespace

const PairKernels pairs_baseline = pair_kernels<Vectors>("baseline");

}  // namespace driftbound
