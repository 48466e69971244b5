#include "num/kernels/double_double_kernel.hpp"

namespace driftbound::num {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 2;
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::int64_t Integers __attribute__((vector_size(16)));
  typedef std::uint64_t Naturals __attribute__((vector_size(16)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) {
    return Doubles{__builtin_fma(x[0], y[0], z[0]), __builtin_fma(x[1], y[1], z[1])};
  }
  static Doubles sqrt(Doubles x) { return Doubles{__builtin_sqrt(x[0]), __builtin_sqrt(x[1])}; }
  static Doubles gather(const double* table, Integers index) { return Doubles{table[index[0]], table[index[1]]}; }
};

}  // namespace

const DoubleDoubleKernels double_double_baseline = double_double_kernels<Vectors>("baseline");

}  // namespace driftbound::num
