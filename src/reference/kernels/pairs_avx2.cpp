#include <immintrin.h>

#include "reference/kernels/pairs_kernel.hpp"

namespace driftbound {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 4;
  typedef double Doubles __attribute__((vector_size(32)));
  typedef std::int64_t Integers __attribute__((vector_size(32)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) { return _mm256_fmadd_pd(x, y, z); }
  static Doubles sqrt(Doubles x) { return _mm256_sqrt_pd(x); }
};

}  // namespace

const PairKernels pairs_avx2 = pair_kernels<Vectors>("avx2");

}  // namespace driftbound
