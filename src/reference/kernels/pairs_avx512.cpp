#include <immintrin.h>

#include "reference/kernels/pairs_kernel.hpp"

namespace driftbound {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 8;
  typedef double Doubles __attribute__((vector_size(64)));
  typedef std::int64_t Integers __attribute__((vector_size(64)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) { return _mm512_fmadd_pd(x, y, z); }
  // Without a mask GCC 12 warns of its own header.
  static Doubles sqrt(Doubles x) { return _mm512_maskz_sqrt_pd(0xff, x); }
};

}  // namespace

const PairKernels pairs_avx512 = pair_kernels<Vectors>("avx512");

}  // namespace driftbound
